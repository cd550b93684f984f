// The online softmax: tile by tile the largest score, the exponentials and their sum.
#include "ddprun/kernels/rows/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ddprun/kernels/rows/softmax.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ddprun/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ddprun::kernels::HWY_NAMESPACE {

/// Minus infinity for the scores that lanes [lane, lane + Lanes) do not see.
HWY_INLINE void hide_future(const QueryLanes& tile, std::int64_t lane, float* scores) {
  const Vector hidden = hn::Set(kFloats, -std::numeric_limits<float>::infinity());
  const auto first = static_cast<float>(tile.seen + lane);
  const Vector seen = hn::Iota(kFloats, first);  // of each lane; exact, since tiles are small
  for (std::int64_t row = std::max<std::int64_t>(0, tile.seen + lane); row < tile.rows; ++row) {
    float* const at = scores + row * tile.lanes + lane;
    const auto sees = hn::Lt(hn::Set(kFloats, static_cast<float>(row)), seen);
    hn::StoreU(hn::IfThenElse(sees, hn::LoadU(kFloats, at), hidden), kFloats, at);
  }
}

/// The largest scores of lanes [lane, lane + Lanes), or `before` if that is larger.
HWY_INLINE Vector largest_of_lanes(const QueryLanes& tile, std::int64_t lane, const float* scores,
                                   Vector before) {
  const auto at = [&](std::int64_t row)
                      HWY_ATTR { return hn::LoadU(kFloats, scores + row * tile.lanes + lane); };
  Vector a = before;
  Vector b = before;
  std::int64_t row = 0;
  for (; row + 2 <= tile.rows; row += 2) {
    a = hn::Max(a, at(row));
    b = hn::Max(b, at(row + 1));
  }
  if (row < tile.rows) a = hn::Max(a, at(row));
  return hn::Max(a, b);
}

/// Replaces the scores of these lanes by their exponentials. Returns the sums.
HWY_INLINE Vector exponentials(const QueryLanes& tile, std::int64_t lane, Vector largest,
                               float* scores) {
  const Vector scale = hn::Set(kFloats, tile.scale);
  Vector sums[2] = {hn::Zero(kFloats), hn::Zero(kFloats)};
  const auto step = [&](std::int64_t row, Vector& sum) HWY_ATTR {
    float* const at = scores + row * tile.lanes + lane;
    const Vector p = exp(hn::Mul(scale, hn::Sub(hn::LoadU(kFloats, at), largest)));
    hn::StoreU(p, kFloats, at);
    sum = hn::Add(sum, p);
  };
  std::int64_t row = 0;
  for (; row + 2 <= tile.rows; row += 2) {
    step(row, sums[0]);
    step(row + 1, sums[1]);
  }
  if (row < tile.rows) step(row, sums[0]);
  return hn::Add(sums[0], sums[1]);
}

bool online_softmax_lanes(const QueryLanes& tile, float* scores, const RunningSoftmax& running,
                          float* factor) {
  const auto width = static_cast<std::int64_t>(hn::Lanes(kFloats));
  const Vector scale = hn::Set(kFloats, tile.scale);
  bool grown = false;
  for (std::int64_t lane = 0; lane < tile.lanes; lane += width) {
    if (tile.seen + lane < tile.rows) hide_future(tile, lane, scores);
    const Vector before = hn::LoadU(kFloats, running.largest + lane);
    const Vector largest = largest_of_lanes(tile, lane, scores, before);
    const Vector factors = exp(hn::Mul(scale, hn::Sub(before, largest)));
    const Vector sum = exponentials(tile, lane, largest, scores);
    const Vector old = hn::LoadU(kFloats, running.sum + lane);
    hn::StoreU(hn::MulAdd(old, factors, sum), kFloats, running.sum + lane);
    hn::StoreU(largest, kFloats, running.largest + lane);
    hn::StoreU(factors, kFloats, factor + lane);
    grown = grown || !hn::AllTrue(kFloats, hn::Eq(factors, hn::Set(kFloats, 1.0f)));
  }
  return grown;
}

/// values (rows, lanes) = op(values, of_lane), with one value a lane.
template <class Op>
HWY_INLINE void combine_with_lanes(std::int64_t rows, std::int64_t lanes, const float* of_lane,
                                   float* values, const Op& op) {
  const auto width = static_cast<std::int64_t>(hn::Lanes(kFloats));
  for (std::int64_t row = 0; row < rows; ++row, values += lanes) {
    for (std::int64_t lane = 0; lane < lanes; lane += width) {
      const Vector combined =
          op(hn::LoadU(kFloats, values + lane), hn::LoadU(kFloats, of_lane + lane));
      hn::StoreU(combined, kFloats, values + lane);
    }
  }
}

void scale_lanes_of(std::int64_t rows, std::int64_t lanes, const float* factor, float* values) {
  combine_with_lanes(rows, lanes, factor, values,
                     [](Vector a, Vector b) HWY_ATTR { return hn::Mul(a, b); });
}

void divide_lanes(std::int64_t rows, std::int64_t lanes, const float* sum, float* values) {
  combine_with_lanes(rows, lanes, sum, values,
                     [](Vector a, Vector b) HWY_ATTR { return hn::Div(a, b); });
}

void softmax_backward_rows(const KeyLanes& tile, const float* log_sum_exp, const float* delta,
                           float* scores, float* dprobabilities) {
  const Vector scale = hn::Set(kFloats, tile.scale);
  for (std::int64_t r = 0; r < tile.rows; ++r) {
    const std::int64_t count = std::clamp<std::int64_t>(tile.seen + r, 0, tile.keys);
    float* const p_row = scores + r * tile.lanes;
    float* const d_row = dprobabilities + r * tile.lanes;
    const Vector shift = hn::Set(kFloats, log_sum_exp[r]);
    const Vector mean = hn::Set(kFloats, delta[r]);
    for_vectors(0, count, [&](auto lanes, std::int64_t i) HWY_ATTR {
      const Vector p = exp(hn::MulSub(scale, load(p_row + i, lanes), shift));
      const Vector dp = load(d_row + i, lanes);
      store(p, p_row + i, lanes);
      store(hn::Mul(hn::Mul(p, scale), hn::Sub(dp, mean)), d_row + i, lanes);
    });
    std::fill(p_row + count, p_row + tile.lanes, 0.0f);
    std::fill(d_row + count, d_row + tile.lanes, 0.0f);
  }
}

template <class T>
void row_dots(const Matrix<const T>& a, const Matrix<const T>& b, float* out) {
  for (std::int64_t r = 0; r < a.rows; ++r) {
    const T* const left = a.data + r * a.stride;
    const T* const right = b.data + r * b.stride;
    const auto add = [&](auto lanes, std::int64_t i, Vector partial) HWY_ATTR {
      return hn::MulAdd(load(left + i, lanes), load(right + i, lanes), partial);
    };
    out[r] = sum_of_lanes(fold_sum(0, a.columns, add));
  }
}

}  // namespace ddprun::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ddprun::kernels {

HWY_EXPORT(online_softmax_lanes);
HWY_EXPORT(scale_lanes_of);
HWY_EXPORT(divide_lanes);
HWY_EXPORT(softmax_backward_rows);

bool online_softmax(const QueryLanes& tile, float* scores, const RunningSoftmax& running,
                    float* factor) {
  return HWY_DYNAMIC_DISPATCH(online_softmax_lanes)(tile, scores, running, factor);
}

void scale_lanes(std::int64_t rows, std::int64_t lanes, const float* factor, float* values) {
  HWY_DYNAMIC_DISPATCH(scale_lanes_of)(rows, lanes, factor, values);
}

void finish_softmax(std::int64_t rows, std::int64_t lanes, float scale,
                    const RunningSoftmax& running, float* values, float* log_sum_exp) {
  HWY_DYNAMIC_DISPATCH(divide_lanes)(rows, lanes, running.sum, values);
  for (std::int64_t lane = 0; lane < lanes; ++lane) {
    log_sum_exp[lane] = scale * running.largest[lane] + std::log(running.sum[lane]);
  }
}

void softmax_backward(const KeyLanes& tile, const float* log_sum_exp, const float* delta,
                      float* scores, float* dprobabilities) {
  HWY_DYNAMIC_DISPATCH(softmax_backward_rows)
  (tile, log_sum_exp, delta, scores, dprobabilities);
}

template <class T>
void row_dots(const Matrix<const T>& a, const Matrix<const T>& b, float* out) {
  DDPRUN_DISPATCH(row_dots, T)(a, b, out);
}
template void row_dots(const Matrix<const float>&, const Matrix<const float>&, float*);
template void row_dots(const Matrix<const bf16>&, const Matrix<const bf16>&, float*);

}  // namespace ddprun::kernels
#endif
