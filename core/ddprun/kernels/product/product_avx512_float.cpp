// FMA over panels: 12 x 32 results in 24 of the 32 registers.
#include "ddprun/kernels/product/product_avx512_float.h"

#include <c10/util/Exception.h>

#include "ddprun/kernels/product/pairs_avx512.h"

namespace ddprun::kernels {

#if defined(__x86_64__)

namespace {

using namespace avx512;

/// `rows` rows of `width` values each (a multiple of 16), from (row, column) on. At the matrix's
/// end it is a copy in `padded`, with zeros for what is missing; else the values where they lie.
DDPRUN_AVX512 inline Matrix<const float> whole_rows(const Source<float>& source, std::int64_t row,
                                                    std::int64_t column, std::int64_t rows,
                                                    std::int64_t width, float* padded) {
  const float* const from = source.data + row * source.stride + column;
  const std::int64_t left = source.columns - column;
  if (row + rows <= source.rows && left >= width) return {from, source.stride};
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t lane = 0; lane < width; lane += kLanes) {
      const bool present = row + i < source.rows && left > lane;
      const auto mask = static_cast<__mmask16>(present ? first_values(left - lane) : 0);
      _mm512_store_ps(padded + i * width + lane,
                      _mm512_maskz_loadu_ps(mask, from + i * source.stride + lane));
    }
  }
  return {padded, width};
}

/// A float takes the place of a pair: both are 32 bits.
DDPRUN_AVX512 inline bf16* as_pairs(float* values) { return reinterpret_cast<bf16*>(values); }

/// A panel of `width` rows, with k along them: out[k][row].
template <int width>
DDPRUN_AVX512 void pack_rows(const Source<float>& source, float* out) {
  const std::int64_t depth = round_up(source.columns, kLanes);
  alignas(64) float padded[kLanes * kLanes];
  for (std::int64_t row = 0; row < source.rows; row += width) {
    for (std::int64_t column = 0; column < source.columns; column += kLanes) {
      float* const to = out + row * depth + column * width;
      for (int lane = 0; lane < width; lane += kLanes) {
        constexpr int kPart = width < kLanes ? width : static_cast<int>(kLanes);
        const auto in = whole_rows(source, row + lane, column, kLanes, kLanes, padded);
        transpose_pairs<kPart>({reinterpret_cast<const bf16*>(in.data), 2 * in.stride},
                               as_pairs(to + lane), 2 * width);
      }
    }
  }
}

/// A panel of `width` columns, with k along them: out[k][column].
template <int width>
DDPRUN_AVX512 void pack_columns(const Source<float>& source, float* out) {
  constexpr std::int64_t kWide = width < kLanes ? kLanes : width;
  const std::int64_t depth = round_up(source.rows, kLanes);
  alignas(64) float padded[kLanes * kWide];
  for (std::int64_t row = 0; row < source.rows; row += kLanes) {
    for (std::int64_t column = 0; column < source.columns; column += width) {
      const auto in = whole_rows(source, row, column, kLanes, kWide, padded);
      float* to = out + column * depth + row * width;
      for (int i = 0; i < kLanes; ++i, to += width) {
        const float* const from = in.data + i * in.stride;
        if constexpr (width < kLanes) {
          write_pairs<width>(as_pairs(to), _mm512_loadu_si512(from));
        } else {
          _mm512_storeu_ps(to, _mm512_loadu_ps(from));
          _mm512_storeu_ps(to + kLanes, _mm512_loadu_ps(from + kLanes));
        }
      }
    }
  }
}

struct FloatsByAvx512 {
  using Element = float;
  static constexpr std::int64_t kRows = 12;
  static constexpr std::int64_t kColumns = 32;
  static constexpr std::int64_t kStep = kLanes;
  // As for bfloat16, in half as many values.
  static constexpr std::int64_t kBlockK = 256;
  static constexpr std::int64_t kBlockN = 512;
  static constexpr std::int64_t kBlockM = 768;
  static constexpr std::int64_t kKept = 512 * 1024;

  static void pack_left(Op op, const Source<float>& source, float* out) {
    op == Op::plain ? pack_rows<kRows>(source, out) : pack_columns<kRows>(source, out);
  }
  static void pack_right(Op op, const Source<float>& source, float* out) {
    op == Op::plain ? pack_columns<kColumns>(source, out) : pack_rows<kColumns>(source, out);
  }

  /// (rows, columns) of c = the product of two panels, plus c if `add`.
  DDPRUN_AVX512 static void multiply_panels(const float* a, const float* b, std::int64_t depth,
                                            std::int64_t rows, std::int64_t columns, bool add,
                                            Matrix<float> c) {
    __m512 sums[kRows][2];
#pragma GCC unroll 12
    for (int row = 0; row < kRows; ++row) {
      sums[row][0] = _mm512_setzero_ps();
      sums[row][1] = _mm512_setzero_ps();
    }
    for (std::int64_t k = 0; k < depth; ++k, a += kRows, b += kColumns) {
      const __m512 low = _mm512_loadu_ps(b);
      const __m512 high = _mm512_loadu_ps(b + kLanes);
#pragma GCC unroll 12
      for (int row = 0; row < kRows; ++row) {
        const __m512 value = _mm512_set1_ps(a[row]);
        sums[row][0] = _mm512_fmadd_ps(value, low, sums[row][0]);
        sums[row][1] = _mm512_fmadd_ps(value, high, sums[row][1]);
      }
    }
#pragma GCC unroll 12
    for (int row = 0; row < kRows; ++row) {
      if (row >= rows) continue;
      float* const to = c.data + row * c.stride;
      if (add) add_row(to, columns, sums[row][0], sums[row][1]);
      write_row(sums[row][0], sums[row][1], columns, to);
    }
  }

  static void multiply(const Packed<float>& packed, std::int64_t m, std::int64_t n, bool add,
                       Matrix<float> c) {
    for_panels<FloatsByAvx512>(packed, m, n, [&](auto* a, auto* b, auto row, auto column) {
      multiply_panels(a, b, packed.depth, m - row, n - column, add, c.from(row, column));
    });
  }
};

}  // namespace

void avx512_product(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                    Matrix<const float> a, Matrix<const float> b, bool add, Matrix<float> c) {
  blocked_product<FloatsByAvx512>(op_a, op_b, m, n, k, a, b, add, c);
}

#else

void avx512_product(Op, Op, std::int64_t, std::int64_t, std::int64_t, Matrix<const float>,
                    Matrix<const float>, bool, Matrix<float>) {
  TORCH_INTERNAL_ASSERT(false, "avx512_product() without has_avx512_bf16()");
}

#endif

}  // namespace ddprun::kernels
