// VCVTNEPS2BF16 rounds a vector, VCVTNE2PS2BF16 two of them.
#include "ddprun/kernels/attention/rounding.h"

#include "ddprun/kernels/attention/tile_layout.h"
#include "ddprun/kernels/product/product_path.h"
#include "ddprun/kernels/product/vectors_avx512.h"
#include "ddprun/kernels/rows/convert.h"

namespace ddprun::kernels {

#if defined(__x86_64__)
namespace {

DDPRUN_AVX512 void avx512_round(std::int64_t count, const float* from, bf16* to) {
  for (std::int64_t i = 0; i < count; i += kLaneUnit) {
    const auto rounded = (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(from + i));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), rounded);
  }
}

/// A row of pairs. Without a second row, its values are 0.
DDPRUN_AVX512 void avx512_pair(std::int64_t columns, const float* first, const float* second,
                               Pair* out) {
  alignas(64) static constexpr std::uint16_t kInterleaved[32] = {
      0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i order = _mm512_load_si512(kInterleaved);
  for (std::int64_t i = 0; i < columns; i += kLaneUnit) {
    const __m512 high = second == nullptr ? _mm512_setzero_ps() : _mm512_loadu_ps(second + i);
    const auto halves = (__m512i)_mm512_cvtne2ps_pbh(high, _mm512_loadu_ps(first + i));
    _mm512_storeu_si512(out + i, _mm512_permutexvar_epi16(order, halves));
  }
}

}  // namespace
#endif

void round_scores(const Matrix<const float>& scores, bf16* to) {
  const std::int64_t count = scores.rows * scores.columns;
#if defined(__x86_64__)
  if (has(ProductPath::avx512_bf16)) return avx512_round(count, scores.data, to);
#endif
  to_bf16(count, scores.data, to);
}

void pair_scores(const Matrix<const float>& scores, Pair* out) {
#if defined(__x86_64__)
  if (has(ProductPath::avx512_bf16)) {
    for (std::int64_t row = 0; row < scores.rows; row += 2, out += scores.columns) {
      const float* const first = scores.from(row).data;
      const float* const second = row + 1 < scores.rows ? first + scores.stride : nullptr;
      avx512_pair(scores.columns, first, second, out);
    }
    return;
  }
#endif
  pair_rows(scores, out);
}

}  // namespace ddprun::kernels
