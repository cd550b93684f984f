// FMA over panels: 6 x 16 results in 12 of the 16 registers.
#include "ddprun/kernels/product/product_avx2.h"

#include <c10/util/Exception.h>

#include "ddprun/kernels/product/blocked_product.h"

#if defined(__x86_64__)
#include <immintrin.h>

// Only functions with this attribute are compiled for AVX2; has(ProductPath::avx2) asks the CPU
// before one runs.
#define DDPRUN_AVX2 __attribute__((target("avx2,fma")))
#endif

namespace ddprun::kernels {

#if defined(__x86_64__)

namespace {

constexpr std::int64_t kLanes = 8;
constexpr std::int64_t kDeep = 4;  // values of k that are packed at a time

DDPRUN_AVX2 inline __m256 load(const float* from) { return _mm256_loadu_ps(from); }
DDPRUN_AVX2 inline __m256 load(const bf16* from) {
  const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

DDPRUN_AVX2 inline __m128 load_four(const bf16* from) {
  const __m128i halves = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  return _mm_castsi128_ps(_mm_slli_epi32(_mm_cvtepu16_epi32(halves), 16));
}

/// Writes the first `lanes` values: 8 or 6.
template <int lanes>
DDPRUN_AVX2 inline void write(float* to, __m256 values) {
  if constexpr (lanes == kLanes) {
    _mm256_storeu_ps(to, values);
  } else {
    static_assert(lanes == 6);
    _mm_storeu_ps(to, _mm256_castps256_ps128(values));
    _mm_storel_pi(reinterpret_cast<__m64*>(to + 4), _mm256_extractf128_ps(values, 1));
  }
}

/// `rows` rows of `width` values each, from (row, column) on. At the matrix's end it is a copy in
/// `padded`, with zeros for what is missing; else the values where they lie.
inline Matrix<const bf16> whole_rows(const Source<bf16>& source, std::int64_t row,
                                     std::int64_t column, std::int64_t rows, std::int64_t width,
                                     bf16* padded) {
  const bf16* const from = source.data + row * source.stride + column;
  if (row + rows <= source.rows && column + width <= source.columns) return {from, source.stride};
  const std::int64_t present = std::min(width, source.columns - column);
  std::fill_n(padded, rows * width, bf16(0));
  for (std::int64_t i = 0; i < std::min(rows, source.rows - row); ++i) {
    std::copy_n(from + i * source.stride, present, padded + i * width);
  }
  return {padded, width};
}

/// 4 rows of out, each of `lanes` values, `stride` apart = 8 rows of 4 values, transposed.
template <int lanes>
DDPRUN_AVX2 inline void transpose(Matrix<const bf16> in, float* out, std::int64_t stride) {
  __m256 x[4];  // x[i]: row i, and row i + 4
  for (int i = 0; i < 4; ++i) {
    const __m128 low = load_four(in.data + i * in.stride);
    const __m128 high = i + 4 < lanes ? load_four(in.data + (i + 4) * in.stride) : _mm_setzero_ps();
    x[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(low), high, 1);
  }
  const __m256 a = _mm256_unpacklo_ps(x[0], x[1]);
  const __m256 b = _mm256_unpackhi_ps(x[0], x[1]);
  const __m256 c = _mm256_unpacklo_ps(x[2], x[3]);
  const __m256 d = _mm256_unpackhi_ps(x[2], x[3]);
  write<lanes>(out, _mm256_shuffle_ps(a, c, 0x44));
  write<lanes>(out + stride, _mm256_shuffle_ps(a, c, 0xEE));
  write<lanes>(out + 2 * stride, _mm256_shuffle_ps(b, d, 0x44));
  write<lanes>(out + 3 * stride, _mm256_shuffle_ps(b, d, 0xEE));
}

/// A panel of `width` rows, with k along them: out[k][row].
template <int width>
DDPRUN_AVX2 void pack_rows(const Source<bf16>& source, float* out) {
  constexpr int kPart = width < kLanes ? width : static_cast<int>(kLanes);
  const std::int64_t depth = round_up(source.columns, kDeep);
  alignas(32) bf16 padded[kPart * kDeep];
  for (std::int64_t row = 0; row < source.rows; row += width) {
    for (std::int64_t column = 0; column < source.columns; column += kDeep) {
      float* const to = out + row * depth + column * width;
      for (int lane = 0; lane < width; lane += kPart) {
        const auto in = whole_rows(source, row + lane, column, kPart, kDeep, padded);
        transpose<kPart>(in, to + lane, width);
      }
    }
  }
}

/// A panel of `width` columns, with k along them: out[k][column].
template <int width>
DDPRUN_AVX2 void pack_columns(const Source<bf16>& source, float* out) {
  constexpr std::int64_t kWide = width < kLanes ? kLanes : width;
  const std::int64_t depth = round_up(source.rows, kDeep);
  alignas(32) bf16 padded[kDeep * kWide];
  for (std::int64_t row = 0; row < source.rows; row += kDeep) {
    for (std::int64_t column = 0; column < source.columns; column += width) {
      const auto in = whole_rows(source, row, column, kDeep, kWide, padded);
      float* to = out + column * depth + row * width;
      for (int i = 0; i < kDeep; ++i, to += width) {
        const bf16* const from = in.data + i * in.stride;
        if constexpr (width < kLanes) {
          write<width>(to, load(from));
        } else {
          _mm256_storeu_ps(to, load(from));
          _mm256_storeu_ps(to + kLanes, load(from + kLanes));
        }
      }
    }
  }
}

/// Eight values, or the first `columns` of them.
DDPRUN_AVX2 inline __m256 load_first(const float* from, std::int64_t columns) {
  if (columns >= kLanes) return load(from);
  alignas(32) float values[kLanes] = {};
  if (columns > 0) std::copy_n(from, columns, values);
  return load(values);
}
DDPRUN_AVX2 inline void store(__m256 values, float* to) { _mm256_storeu_ps(to, values); }
/// Rounds to nearest even. A NaN stays one: those of sums of bfloat16 have no low bits that could
/// carry.
DDPRUN_AVX2 inline void store(__m256 values, bf16* to) {
  const __m256i bits = _mm256_castps_si256(values);
  const __m256i last = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(last, _mm256_set1_epi32(0x7FFF)));
  const __m256i high = _mm256_srli_epi32(rounded, 16);
  const __m128i packed =
      _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), packed);
}
template <class T>
DDPRUN_AVX2 inline void store_first(__m256 values, std::int64_t columns, T* to) {
  if (columns >= kLanes) return store(values, to);
  alignas(32) T all[kLanes];
  store(values, all);
  if (columns > 0) std::copy_n(all, columns, to);
}

struct ByAvx2 : ByPanels<ByAvx2> {
  using Element = float;
  static constexpr std::int64_t kRows = 6;
  static constexpr std::int64_t kColumns = 16;
  static constexpr std::int64_t kStep = kDeep;
  // A panel of a stays in the first-level cache, a block of b in half of a second-level one of
  // 512 KiB.
  static constexpr std::int64_t kBlockK = 256;
  static constexpr std::int64_t kBlockN = 256;
  static constexpr std::int64_t kBlockM = 768;
  static constexpr std::int64_t kKept = 512 * 1024;

  static void pack_left(Op op, const Source<bf16>& source, float* out) {
    op == Op::plain ? pack_rows<kRows>(source, out) : pack_columns<kRows>(source, out);
  }
  static void pack_right(Op op, const Source<bf16>& source, float* out) {
    op == Op::plain ? pack_columns<kColumns>(source, out) : pack_rows<kColumns>(source, out);
  }

  /// (rows, columns) of c = the product of two panels, plus addend if there is one.
  template <typename T>
  DDPRUN_AVX2 static void multiply_panels(const float* a, const float* b, std::int64_t depth,
                                          std::int64_t rows, std::int64_t columns,
                                          Matrix<const float> addend, Matrix<T> c) {
    __m256 sums[kRows][2];
#pragma GCC unroll 6
    for (int row = 0; row < kRows; ++row) {
      sums[row][0] = _mm256_setzero_ps();
      sums[row][1] = _mm256_setzero_ps();
    }
    for (std::int64_t k = 0; k < depth; ++k, a += kRows, b += kColumns) {
      const __m256 low = load(b);
      const __m256 high = load(b + kLanes);
#pragma GCC unroll 6
      for (int row = 0; row < kRows; ++row) {
        const __m256 value = _mm256_broadcast_ss(a + row);
        sums[row][0] = _mm256_fmadd_ps(value, low, sums[row][0]);
        sums[row][1] = _mm256_fmadd_ps(value, high, sums[row][1]);
      }
    }
#pragma GCC unroll 6
    for (int row = 0; row < kRows; ++row) {
      if (row >= rows) continue;
      if (addend.data != nullptr) {
        const float* const from = addend.data + row * addend.stride;
        sums[row][0] = _mm256_add_ps(sums[row][0], load_first(from, columns));
        sums[row][1] = _mm256_add_ps(sums[row][1], load_first(from + kLanes, columns - kLanes));
      }
      T* const to = c.data + row * c.stride;
      store_first(sums[row][0], columns, to);
      store_first(sums[row][1], columns - kLanes, to + kLanes);
    }
  }
};

}  // namespace

void avx2_product(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                  Matrix<const bf16> a, Matrix<const bf16> b, bool add, Matrix<float> c) {
  blocked_product<ByAvx2>(op_a, op_b, m, n, k, a, b, add, c);
}
void avx2_product(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                  Matrix<const bf16> a, Matrix<const bf16> b, Matrix<bf16> c) {
  blocked_product<ByAvx2>(op_a, op_b, m, n, k, a, b, false, c);
}

#else

void avx2_product(Op, Op, std::int64_t, std::int64_t, std::int64_t, Matrix<const bf16>,
                  Matrix<const bf16>, bool, Matrix<float>) {
  TORCH_INTERNAL_ASSERT(false, "avx2_product() without AVX2");
}
void avx2_product(Op, Op, std::int64_t, std::int64_t, std::int64_t, Matrix<const bf16>,
                  Matrix<const bf16>, Matrix<bf16>) {
  TORCH_INTERNAL_ASSERT(false, "avx2_product() without AVX2");
}

#endif

}  // namespace ddprun::kernels
