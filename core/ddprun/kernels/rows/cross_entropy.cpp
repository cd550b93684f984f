// Cross entropy in three passes over a row, which fits the second-level cache: maximum,
// exponentials and their sum, gradient.
#include "ddprun/kernels/rows/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ddprun/kernels/rows/cross_entropy.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ddprun/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ddprun::kernels::HWY_NAMESPACE {

constexpr float kLowest = std::numeric_limits<float>::lowest();

/// Lanes beyond a tail hold the lowest value.
template <class T>
HWY_INLINE Vector load_or_lowest(const T* from, All lanes) {
  return load(from, lanes);
}
template <class T>
HWY_INLINE Vector load_or_lowest(const T* from, First lanes) {
  return hn::IfThenElse(hn::FirstN(kFloats, lanes.count), load(from, lanes),
                        hn::Set(kFloats, kLowest));
}

template <class L>
HWY_INLINE float max_of_row(std::int64_t vocab, const L* logits) {
  // It does not begin at -inf, because the difference of two infinities would be a NaN.
  const auto fold_max = [&](auto lanes, std::int64_t i, Vector highest) HWY_ATTR {
    return hn::Max(highest, load_or_lowest(logits + i, lanes));
  };
  return max_of_lanes(fold(0, vocab, hn::Set(kFloats, kLowest), fold_max,
                           [](Vector a, Vector b) HWY_ATTR { return hn::Max(a, b); }));
}

/// Returns the sum of e^(logit - max). Writes each of these exponentials to `kept` if asked to.
template <bool kKeep, class L, class G>
HWY_INLINE float sum_of_exponentials(std::int64_t vocab, float max, const L* logits, G* kept) {
  const Vector offset = hn::Set(kFloats, max);
  return sum_of_lanes(fold_sum(0, vocab, [&](auto lanes, std::int64_t i, Vector sum) HWY_ATTR {
    const Vector power = exp(hn::Sub(load_or_lowest(logits + i, lanes), offset));
    if constexpr (kKeep) store(power, kept + i, lanes);
    return hn::Add(sum, power);
  }));
}

template <class L, class G>
double cross_entropy(std::int64_t rows, std::int64_t vocab, const L* logits,
                     const std::int64_t* targets, float scale, G* dlogits) {
  // Exponentials that were kept are scaled. In bf16 they would be rounded twice, so they are
  // computed again.
  constexpr bool kKeep = std::is_same_v<G, float>;
  double loss = 0.0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const L* const in = logits + row * vocab;
    G* const out = dlogits + row * vocab;
    const std::int64_t target = targets[row];
    if (target < 0) {
      if (dlogits != nullptr) std::fill_n(out, vocab, G{});
      continue;
    }
    const float max = max_of_row(vocab, in);
    const float above = static_cast<float>(in[target]) - max;  // read before out, which may be in
    const float sum = dlogits == nullptr ? sum_of_exponentials<false>(vocab, max, in, out)
                                         : sum_of_exponentials<kKeep>(vocab, max, in, out);
    loss += std::log(static_cast<double>(sum)) - static_cast<double>(above);
    if (dlogits == nullptr) continue;
    const Vector offset = hn::Set(kFloats, max);
    const Vector factor = hn::Set(kFloats, scale / sum);
    for_vectors(0, vocab, [&](auto lanes, std::int64_t i) HWY_ATTR {
      if constexpr (kKeep) {
        store(hn::Mul(load(out + i, lanes), factor), out + i, lanes);
      } else {
        store(hn::Mul(exp(hn::Sub(load(in + i, lanes), offset)), factor), out + i, lanes);
      }
    });
    out[target] = static_cast<G>((std::exp(above) / sum - 1.0f) * scale);
  }
  return loss;
}

}  // namespace ddprun::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ddprun::kernels {

template <class L, class G>
double cross_entropy(std::int64_t rows, std::int64_t vocab, const L* logits,
                     const std::int64_t* targets, float scale, G* dlogits) {
  return DDPRUN_DISPATCH(cross_entropy, L, G)(rows, vocab, logits, targets, scale, dlogits);
}

#define DDPRUN_CROSS_ENTROPY(L, G)                                                                \
  template double cross_entropy(std::int64_t, std::int64_t, const L*, const std::int64_t*, float, \
                                G*)
DDPRUN_CROSS_ENTROPY(float, float);
DDPRUN_CROSS_ENTROPY(float, bf16);
DDPRUN_CROSS_ENTROPY(bf16, bf16);

}  // namespace ddprun::kernels
#endif
