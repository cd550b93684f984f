// The online softmax: tile by tile the largest score, the exponentials and their sum.
#include "ddprun/kernels/rows/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

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

/// Writes vectors of rows `row` and `row` + 1, unless the latter is not there.
HWY_INLINE void write_two(Vector first, Vector second, std::int64_t row, bool alone,
                          std::int64_t lanes, float* to) {
  hn::StoreU(first, kFloats, to + row * lanes);
  if (!alone) hn::StoreU(second, kFloats, to + (row + 1) * lanes);
}
HWY_INLINE void write_two(Vector first, Vector second, std::int64_t row, bool /*alone*/,
                          std::int64_t lanes, Pair* to) {
  const hn::Vec<Bits> pairs = round_two(first, second).pairs;
  hn::StoreU(pairs, kBits, reinterpret_cast<std::uint32_t*>(to + row / 2 * lanes));
}

/// Writes the exponentials of the scores of these lanes. Returns the sums.
template <class E>
HWY_INLINE Vector exponentials(const QueryLanes& tile, std::int64_t lane, Vector largest,
                               const float* scores, E* out) {
  const Vector scale = hn::Set(kFloats, tile.scale);
  Vector sums[2] = {hn::Zero(kFloats), hn::Zero(kFloats)};
  const auto step = [&](std::int64_t row, Vector& sum) HWY_ATTR {
    const Vector score = hn::LoadU(kFloats, scores + row * tile.lanes + lane);
    const Vector p = exp(hn::Mul(scale, hn::Sub(score, largest)));
    sum = hn::Add(sum, p);
    return p;
  };
  std::int64_t row = 0;
  for (; row + 2 <= tile.rows; row += 2) {
    const Vector first = step(row, sums[0]);
    const Vector second = step(row + 1, sums[1]);
    write_two(first, second, row, false, tile.lanes, out + lane);
  }
  if (row < tile.rows) {
    const Vector last = step(row, sums[0]);
    write_two(last, hn::Zero(kFloats), row, true, tile.lanes, out + lane);
  }
  return hn::Add(sums[0], sums[1]);
}

template <class E>
bool online_softmax(const QueryLanes& tile, float* scores, const RunningSoftmax& running,
                    float* factor, E* probabilities) {
  const auto width = static_cast<std::int64_t>(hn::Lanes(kFloats));
  const Vector scale = hn::Set(kFloats, tile.scale);
  bool grown = false;
  for (std::int64_t lane = 0; lane < tile.lanes; lane += width) {
    if (tile.seen + lane < tile.rows) hide_future(tile, lane, scores);
    const Vector before = hn::LoadU(kFloats, running.largest + lane);
    const Vector largest = largest_of_lanes(tile, lane, scores, before);
    const Vector factors = exp(hn::Mul(scale, hn::Sub(before, largest)));
    const Vector sum = exponentials(tile, lane, largest, scores, probabilities);
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

/// A row of scores in backward.
struct ScoreRow {
  std::int64_t count;  // of the keys that it sees
  Vector scale, log_sum_exp, delta;
  const float *scores, *dprobabilities;
};

/// The row after the last one sees no key.
HWY_INLINE ScoreRow score_row(const KeyLanes& tile, std::int64_t row, const float* log_sum_exp,
                              const float* delta, const float* scores,
                              const float* dprobabilities) {
  const std::int64_t seen = row < tile.rows ? tile.seen + row : 0;
  row = std::min(row, tile.rows - 1);
  return {std::clamp<std::int64_t>(seen, 0, tile.keys),
          hn::Set(kFloats, tile.scale),
          hn::Set(kFloats, log_sum_exp[row]),
          hn::Set(kFloats, delta[row]),
          scores + row * tile.lanes,
          dprobabilities + row * tile.lanes};
}

struct ProbabilitiesAndGradients {
  Vector p, ds;
};
HWY_INLINE ProbabilitiesAndGradients of_lanes(const ScoreRow& row, std::int64_t lane) {
  const Vector score = hn::LoadU(kFloats, row.scores + lane);
  const Vector p = exp(hn::MulSub(row.scale, score, row.log_sum_exp));
  const Vector dp = hn::LoadU(kFloats, row.dprobabilities + lane);
  return {p, hn::Mul(hn::Mul(p, row.scale), hn::Sub(dp, row.delta))};
}
/// 0 where the row does not see the key.
HWY_INLINE ProbabilitiesAndGradients of_seen_lanes(const ScoreRow& row, std::int64_t lane) {
  const auto left = static_cast<std::size_t>(std::max<std::int64_t>(0, row.count - lane));
  const auto sees = hn::FirstN(kFloats, std::min(left, hn::Lanes(kFloats)));
  const ProbabilitiesAndGradients all = of_lanes(row, lane);
  return {hn::IfThenElseZero(sees, all.p), hn::IfThenElseZero(sees, all.ds)};
}

template <class E>
void softmax_backward(const KeyLanes& tile, const float* log_sum_exp, const float* delta,
                      const float* scores, const float* dprobabilities,
                      const ScoreGradients<E>& out) {
  const auto width = static_cast<std::int64_t>(hn::Lanes(kFloats));
  auto* const rows = reinterpret_cast<std::uint16_t*>(out.rows);
  for (std::int64_t row = 0; row < tile.rows; row += 2) {
    const bool alone = row + 1 == tile.rows;
    const ScoreRow first = score_row(tile, row, log_sum_exp, delta, scores, dprobabilities);
    const ScoreRow second = score_row(tile, row + 1, log_sum_exp, delta, scores, dprobabilities);
    const auto write = [&](std::int64_t lane, const ProbabilitiesAndGradients& a,
                           const ProbabilitiesAndGradients& b) HWY_ATTR {
      write_two(a.p, b.p, row, alone, tile.lanes, out.probabilities + lane);
      write_two(a.ds, b.ds, row, alone, tile.lanes, out.dscores + lane);
      if constexpr (std::is_same_v<E, Pair>) {
        const TwoRounded ds = round_two(a.ds, b.ds);
        hn::StoreU(ds.first, kHalves, rows + row * tile.lanes + lane);
        if (!alone) hn::StoreU(ds.second, kHalves, rows + (row + 1) * tile.lanes + lane);
      }
    };
    std::int64_t lane = 0;
    for (; lane + width <= std::min(first.count, second.count); lane += width) {
      write(lane, of_lanes(first, lane), of_lanes(second, lane));
    }
    for (; lane < std::max(first.count, second.count); lane += width) {
      write(lane, of_seen_lanes(first, lane), of_seen_lanes(second, lane));
    }
    const ProbabilitiesAndGradients zero = {hn::Zero(kFloats), hn::Zero(kFloats)};
    for (; lane < tile.lanes; lane += width) write(lane, zero, zero);
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

HWY_EXPORT(scale_lanes_of);
HWY_EXPORT(divide_lanes);

template <class E>
bool online_softmax(const QueryLanes& tile, float* scores, const RunningSoftmax& running,
                    float* factor, E* probabilities) {
  return DDPRUN_DISPATCH(online_softmax, E)(tile, scores, running, factor, probabilities);
}
template bool online_softmax(const QueryLanes&, float*, const RunningSoftmax&, float*, float*);
template bool online_softmax(const QueryLanes&, float*, const RunningSoftmax&, float*, Pair*);

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

template <class E>
void softmax_backward(const KeyLanes& tile, const float* log_sum_exp, const float* delta,
                      const float* scores, const float* dprobabilities,
                      const ScoreGradients<E>& out) {
  DDPRUN_DISPATCH(softmax_backward, E)(tile, log_sum_exp, delta, scores, dprobabilities, out);
}
template void softmax_backward(const KeyLanes&, const float*, const float*, const float*,
                               const float*, const ScoreGradients<float>&);
template void softmax_backward(const KeyLanes&, const float*, const float*, const float*,
                               const float*, const ScoreGradients<Pair>&);

template <class T>
void row_dots(const Matrix<const T>& a, const Matrix<const T>& b, float* out) {
  DDPRUN_DISPATCH(row_dots, T)(a, b, out);
}
template void row_dots(const Matrix<const float>&, const Matrix<const float>&, float*);
template void row_dots(const Matrix<const bf16>&, const Matrix<const bf16>&, float*);

}  // namespace ddprun::kernels
#endif
