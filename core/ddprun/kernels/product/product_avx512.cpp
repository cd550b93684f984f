// VDPBF16PS over panels: 12 x 32 results in 24 of the 32 registers.
#include "ddprun/kernels/product/product_avx512.h"

#include <c10/util/Exception.h>

#include "ddprun/kernels/product/pairs_avx512.h"

namespace ddprun::kernels {

#if defined(__x86_64__)

namespace {

using namespace avx512;

/// A panel of `width` rows, with k along them: out[pair of k][row].
template <int width>
DDPRUN_AVX512 void pack_rows(const Source<bf16>& source, bf16* out) {
  const std::int64_t depth = round_up(source.columns, kDeep);
  alignas(64) bf16 padded[kLanes * 32];
  for (std::int64_t row = 0; row < source.rows; row += width) {
    for (std::int64_t column = 0; column < source.columns; column += kDeep) {
      bf16* const to = out + row * depth + column * width;
      for (int lane = 0; lane < width; lane += kLanes) {
        constexpr int kPart = width < kLanes ? width : static_cast<int>(kLanes);
        const auto in = whole_rows(source, row + lane, column, kLanes, padded);
        transpose_pairs<kPart>(in, to + 2 * lane, 2 * width);
      }
    }
  }
}

/// A panel of `width` columns, with k along them: out[pair of k][column].
template <int width>
DDPRUN_AVX512 void pack_columns(const Source<bf16>& source, bf16* out) {
  const std::int64_t depth = round_up(source.rows, kDeep);
  alignas(64) bf16 padded[kDeep * 32];
  for (std::int64_t row = 0; row < source.rows; row += kDeep) {
    for (std::int64_t column = 0; column < source.columns; column += width) {
      const auto in = whole_rows(source, row, column, kDeep, padded);
      bf16* const to = out + column * depth + row * width;
      for (int i = 0; i < kLanes; ++i) {
        const RowPairs pairs =
            pair_up(in.data + 2 * i * in.stride, in.data + (2 * i + 1) * in.stride);
        if constexpr (width < kLanes) {
          write_pairs<width>(to + i * 2 * width, pairs.low);
        } else {
          write_pairs<kLanes>(to + i * 2 * width, pairs.low);
          write_pairs<kLanes>(to + i * 2 * width + 32, pairs.high);
        }
      }
    }
  }
}

struct ByAvx512 : ByPanels<ByAvx512> {
  using Element = bf16;
  static constexpr std::int64_t kRows = 12;
  static constexpr std::int64_t kColumns = 32;
  static constexpr std::int64_t kStep = kDeep;
  // The blocks of a and b stay in the second-level cache. A panel of b takes all of the first-level
  // one, and yet half as deep a block is 6 % slower: sums go to memory and back more often.
  static constexpr std::int64_t kBlockK = 512;
  static constexpr std::int64_t kBlockN = 512;
  static constexpr std::int64_t kBlockM = 768;
  static constexpr std::int64_t kKept = 1024 * 1024;

  static void pack_left(Op op, const Source<bf16>& source, bf16* out) {
    op == Op::plain ? pack_rows<kRows>(source, out) : pack_columns<kRows>(source, out);
  }
  static void pack_right(Op op, const Source<bf16>& source, bf16* out) {
    op == Op::plain ? pack_columns<kColumns>(source, out) : pack_rows<kColumns>(source, out);
  }

  /// (rows, columns) of c = the product of two panels, plus addend if there is one.
  template <typename T>
  DDPRUN_AVX512 static void multiply_panels(const bf16* a, const bf16* b, std::int64_t depth,
                                            std::int64_t rows, std::int64_t columns,
                                            Matrix<const float> addend, Matrix<T> c) {
    __m512 sums[kRows][2];
#pragma GCC unroll 12
    for (int row = 0; row < kRows; ++row) {
      sums[row][0] = _mm512_setzero_ps();
      sums[row][1] = _mm512_setzero_ps();
    }
    for (std::int64_t k = 0; k < depth; k += 2, a += 2 * kRows, b += 2 * kColumns) {
      const auto low = (__m512bh)_mm512_loadu_si512(b);
      const auto high = (__m512bh)_mm512_loadu_si512(b + 2 * kLanes);
#pragma GCC unroll 12
      for (int row = 0; row < kRows; ++row) {
        const __m512bh pair = broadcast_pair(a + 2 * row);
        sums[row][0] = _mm512_dpbf16_ps(sums[row][0], pair, low);
        sums[row][1] = _mm512_dpbf16_ps(sums[row][1], pair, high);
      }
    }
#pragma GCC unroll 12
    for (int row = 0; row < kRows; ++row) {
      if (row >= rows) continue;
      if (addend.data != nullptr) {
        add_row(addend.data + row * addend.stride, columns, sums[row][0], sums[row][1]);
      }
      write_row(sums[row][0], sums[row][1], columns, c.data + row * c.stride);
    }
  }
};

}  // namespace

bool has_avx512_bf16() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512bf16");
  return has;
}

void avx512_product(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                    Matrix<const bf16> a, Matrix<const bf16> b, bool add, Matrix<float> c) {
  blocked_product<ByAvx512>(op_a, op_b, m, n, k, a, b, add, c);
}

void avx512_product(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                    Matrix<const bf16> a, Matrix<const bf16> b, Matrix<bf16> c) {
  blocked_product<ByAvx512>(op_a, op_b, m, n, k, a, b, false, c);
}

#else

bool has_avx512_bf16() { return false; }

void avx512_product(Op, Op, std::int64_t, std::int64_t, std::int64_t, Matrix<const bf16>,
                    Matrix<const bf16>, bool, Matrix<float>) {
  TORCH_INTERNAL_ASSERT(false, "avx512_product() without has_avx512_bf16()");
}
void avx512_product(Op, Op, std::int64_t, std::int64_t, std::int64_t, Matrix<const bf16>,
                    Matrix<const bf16>, Matrix<bf16>) {
  TORCH_INTERNAL_ASSERT(false, "avx512_product() without has_avx512_bf16()");
}

#endif

}  // namespace ddprun::kernels
