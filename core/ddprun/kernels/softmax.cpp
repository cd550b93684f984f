// Softmax over rows: the largest score, then the exponentials and their sum, then the quotients.
#include "ddprun/kernels/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ddprun/kernels/softmax.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ddprun/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ddprun::kernels::HWY_NAMESPACE {

/// How many scores row `row` sees.
HWY_INLINE std::int64_t visible(const Tile& tile, std::int64_t row) {
  return tile.causal ? std::min(tile.first_row + row + 1, tile.columns) : tile.columns;
}

template <class T>
HWY_INLINE void clear(std::int64_t begin, std::int64_t end, T* row) {
  for_vectors(begin, end, [&](auto lanes, std::int64_t i) HWY_ATTR {
    store(hn::Zero(kFloats), row + i, lanes);
  });
}

/// The largest score of a row. Lanes beyond a tail are loaded as 0, so the tail is folded apart.
HWY_INLINE float max_of_row(std::int64_t count, const float* row) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(kFloats));
  const std::int64_t whole = count / lanes * lanes;
  float largest = -std::numeric_limits<float>::infinity();
  if (whole > 0) {
    largest = max_of_lanes(fold(
        0, whole, hn::Set(kFloats, largest),
        [&](auto which, std::int64_t i, Vector partial)
            HWY_ATTR { return hn::Max(partial, load(row + i, which)); },
        [](Vector a, Vector b) HWY_ATTR { return hn::Max(a, b); }));
  }
  for (std::int64_t i = whole; i < count; ++i) largest = std::max(largest, row[i]);
  return largest;
}

template <class T>
HWY_INLINE void softmax_rows(const Tile& tile, float* scores, T* probabilities,
                             float* log_sum_exp) {
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    const std::int64_t count = visible(tile, r);
    float* const row = scores + r * tile.columns;
    T* const out = probabilities + r * tile.columns;
    const float largest = max_of_row(count, row);
    const Vector scale = hn::Set(kFloats, tile.scale);
    const Vector top = hn::Set(kFloats, largest);
    for_vectors(0, count, [&](auto lanes, std::int64_t i) HWY_ATTR {
      store(exp(hn::Mul(scale, hn::Sub(load(row + i, lanes), top))), row + i, lanes);
    });
    const float sum =
        sum_of_lanes(fold_sum(0, count, [&](auto lanes, std::int64_t i, Vector partial) HWY_ATTR {
          return hn::Add(partial, load(row + i, lanes));
        }));
    const Vector inverse = hn::Set(kFloats, 1.0f / sum);
    for_vectors(0, count, [&](auto lanes, std::int64_t i) HWY_ATTR {
      store(hn::Mul(load(row + i, lanes), inverse), out + i, lanes);
    });
    clear(count, tile.columns, out);
    log_sum_exp[r] = tile.scale * largest + std::log(sum);
  }
}

template <class T>
HWY_INLINE void softmax_backward_rows(const Tile& tile, const float* scores,
                                      const float* dprobabilities, const float* log_sum_exp,
                                      const float* delta, T* probabilities, T* dscores) {
  const Vector scale = hn::Set(kFloats, tile.scale);
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    const std::int64_t count = visible(tile, r);
    const std::int64_t first = r * tile.columns;
    const Vector shift = hn::Set(kFloats, log_sum_exp[r]);
    const Vector mean = hn::Set(kFloats, delta[r]);
    for_vectors(0, count, [&](auto lanes, std::int64_t i) HWY_ATTR {
      const Vector p = exp(hn::MulSub(scale, load(scores + first + i, lanes), shift));
      const Vector dp = load(dprobabilities + first + i, lanes);
      store(p, probabilities + first + i, lanes);
      store(hn::Mul(hn::Mul(p, scale), hn::Sub(dp, mean)), dscores + first + i, lanes);
    });
    clear(count, tile.columns, probabilities + first);
    clear(count, tile.columns, dscores + first);
  }
}

template <class T>
HWY_INLINE void dots(std::int64_t rows, std::int64_t width, const T* a, std::int64_t stride_a,
                     const T* b, std::int64_t stride_b, float* out) {
  for (std::int64_t r = 0; r < rows; ++r) {
    const T* const left = a + r * stride_a;
    const T* const right = b + r * stride_b;
    out[r] =
        sum_of_lanes(fold_sum(0, width, [&](auto lanes, std::int64_t i, Vector partial) HWY_ATTR {
          return hn::MulAdd(load(left + i, lanes), load(right + i, lanes), partial);
        }));
  }
}

void softmax_float(const Tile& tile, float* scores, float* probabilities, float* log_sum_exp) {
  softmax_rows(tile, scores, probabilities, log_sum_exp);
}
void softmax_bf16(const Tile& tile, float* scores, bf16* probabilities, float* log_sum_exp) {
  softmax_rows(tile, scores, probabilities, log_sum_exp);
}
void softmax_backward_float(const Tile& tile, const float* scores, const float* dprobabilities,
                            const float* log_sum_exp, const float* delta, float* probabilities,
                            float* dscores) {
  softmax_backward_rows(tile, scores, dprobabilities, log_sum_exp, delta, probabilities, dscores);
}
void softmax_backward_bf16(const Tile& tile, const float* scores, const float* dprobabilities,
                           const float* log_sum_exp, const float* delta, bf16* probabilities,
                           bf16* dscores) {
  softmax_backward_rows(tile, scores, dprobabilities, log_sum_exp, delta, probabilities, dscores);
}
void row_dots_float(std::int64_t rows, std::int64_t width, const float* a, std::int64_t stride_a,
                    const float* b, std::int64_t stride_b, float* out) {
  dots(rows, width, a, stride_a, b, stride_b, out);
}
void row_dots_bf16(std::int64_t rows, std::int64_t width, const bf16* a, std::int64_t stride_a,
                   const bf16* b, std::int64_t stride_b, float* out) {
  dots(rows, width, a, stride_a, b, stride_b, out);
}

}  // namespace ddprun::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ddprun::kernels {

HWY_EXPORT(softmax_float);
HWY_EXPORT(softmax_bf16);
HWY_EXPORT(softmax_backward_float);
HWY_EXPORT(softmax_backward_bf16);
HWY_EXPORT(row_dots_float);
HWY_EXPORT(row_dots_bf16);

void softmax(const Tile& tile, float* scores, float* probabilities, float* log_sum_exp) {
  HWY_DYNAMIC_DISPATCH(softmax_float)(tile, scores, probabilities, log_sum_exp);
}
void softmax(const Tile& tile, float* scores, bf16* probabilities, float* log_sum_exp) {
  HWY_DYNAMIC_DISPATCH(softmax_bf16)(tile, scores, probabilities, log_sum_exp);
}
void softmax_backward(const Tile& tile, const float* scores, const float* dprobabilities,
                      const float* log_sum_exp, const float* delta, float* probabilities,
                      float* dscores) {
  HWY_DYNAMIC_DISPATCH(softmax_backward_float)
  (tile, scores, dprobabilities, log_sum_exp, delta, probabilities, dscores);
}
void softmax_backward(const Tile& tile, const float* scores, const float* dprobabilities,
                      const float* log_sum_exp, const float* delta, bf16* probabilities,
                      bf16* dscores) {
  HWY_DYNAMIC_DISPATCH(softmax_backward_bf16)
  (tile, scores, dprobabilities, log_sum_exp, delta, probabilities, dscores);
}
void row_dots(std::int64_t rows, std::int64_t width, const float* a, std::int64_t stride_a,
              const float* b, std::int64_t stride_b, float* out) {
  HWY_DYNAMIC_DISPATCH(row_dots_float)(rows, width, a, stride_a, b, stride_b, out);
}
void row_dots(std::int64_t rows, std::int64_t width, const bf16* a, std::int64_t stride_a,
              const bf16* b, std::int64_t stride_b, float* out) {
  HWY_DYNAMIC_DISPATCH(row_dots_bf16)(rows, width, a, stride_a, b, stride_b, out);
}

}  // namespace ddprun::kernels
#endif
