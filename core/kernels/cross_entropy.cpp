// Cross entropy: one pass that finds maximum and sum of exponentials together, one that writes.
#include "ddprun/kernels/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ddprun/kernels/cross_entropy.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ddprun/kernels/simd-inl.h"

#ifndef DDPRUN_KERNELS_SOFTMAX
#define DDPRUN_KERNELS_SOFTMAX
namespace ddprun::kernels {
/// Of one row: softmax(x) = e^(x - max) / sum.
struct Softmax {
  float max;
  float sum;
};
}  // namespace ddprun::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace ddprun::kernels::HWY_NAMESPACE {

constexpr float kLowest = std::numeric_limits<float>::lowest();

/// Lanes beyond a tail are as low as can be.
template <class T>
HWY_INLINE Vector load_or_lowest(const T* from, All lanes) {
  return load(from, lanes);
}
template <class T>
HWY_INLINE Vector load_or_lowest(const T* from, First lanes) {
  return hn::IfThenElse(hn::FirstN(kFloats, lanes.count), load(from, lanes),
                        hn::Set(kFloats, kLowest));
}

/// Online softmax (Milakov and Gimelshein 2018, algorithm 3) by blocks that stay in the first-level
/// cache between their maximum and their sum.
template <class T>
HWY_INLINE Softmax softmax_of_row(std::int64_t vocab, const T* logits) {
  constexpr std::int64_t kBlock = 2048;
  // Not -inf: the difference of two would be a NaN.
  float max = kLowest;
  Vector sums = hn::Zero(kFloats);
  for (std::int64_t begin = 0; begin < vocab; begin += kBlock) {
    const std::int64_t end = std::min(begin + kBlock, vocab);
    const float before = max;
    const auto fold_max = [&](auto lanes, std::int64_t i, Vector highest) HWY_ATTR {
      return hn::Max(highest, load_or_lowest(logits + i, lanes));
    };
    max = max_of_lanes(fold(begin, end, hn::Set(kFloats, before), fold_max,
                            [](Vector a, Vector b) HWY_ATTR { return hn::Max(a, b); }));
    const Vector offset = hn::Set(kFloats, max);
    sums = hn::Mul(sums, exp(hn::Sub(hn::Set(kFloats, before), offset)));
    sums = hn::Add(sums, fold_sum(begin, end, [&](auto lanes, std::int64_t i, Vector sum) HWY_ATTR {
                     return hn::Add(sum, exp(hn::Sub(load_or_lowest(logits + i, lanes), offset)));
                   }));
  }
  return {max, sum_of_lanes(sums)};
}

template <class L, class G>
HWY_INLINE double cross_entropy(std::int64_t rows, std::int64_t vocab, const L* logits,
                                const std::int64_t* targets, float scale, G* dlogits) {
  double loss = 0.0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const L* const in = logits + row * vocab;
    const std::int64_t target = targets[row];
    const Softmax softmax = softmax_of_row(vocab, in);
    const float above = static_cast<float>(in[target]) - softmax.max;
    loss += std::log(static_cast<double>(softmax.sum)) - static_cast<double>(above);
    if (dlogits == nullptr) continue;
    G* const out = dlogits + row * vocab;
    const Vector offset = hn::Set(kFloats, softmax.max);
    const Vector factor = hn::Set(kFloats, scale / softmax.sum);
    for_vectors(0, vocab, [&](auto lanes, std::int64_t i) HWY_ATTR {
      store(hn::Mul(exp(hn::Sub(load(in + i, lanes), offset)), factor), out + i, lanes);
    });
    out[target] = static_cast<G>((std::exp(above) / softmax.sum - 1.0f) * scale);
  }
  return loss;
}

double cross_entropy_float(std::int64_t rows, std::int64_t vocab, const float* logits,
                           const std::int64_t* targets, float scale, float* dlogits) {
  return cross_entropy(rows, vocab, logits, targets, scale, dlogits);
}
double cross_entropy_to_bf16(std::int64_t rows, std::int64_t vocab, const float* logits,
                             const std::int64_t* targets, float scale, bf16* dlogits) {
  return cross_entropy(rows, vocab, logits, targets, scale, dlogits);
}
double cross_entropy_bf16(std::int64_t rows, std::int64_t vocab, const bf16* logits,
                          const std::int64_t* targets, float scale, bf16* dlogits) {
  return cross_entropy(rows, vocab, logits, targets, scale, dlogits);
}

}  // namespace ddprun::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ddprun::kernels {

HWY_EXPORT(cross_entropy_float);
HWY_EXPORT(cross_entropy_to_bf16);
HWY_EXPORT(cross_entropy_bf16);

double cross_entropy(std::int64_t rows, std::int64_t vocab, const float* logits,
                     const std::int64_t* targets, float scale, float* dlogits) {
  return HWY_DYNAMIC_DISPATCH(cross_entropy_float)(rows, vocab, logits, targets, scale, dlogits);
}
double cross_entropy(std::int64_t rows, std::int64_t vocab, const float* logits,
                     const std::int64_t* targets, float scale, bf16* dlogits) {
  return HWY_DYNAMIC_DISPATCH(cross_entropy_to_bf16)(rows, vocab, logits, targets, scale, dlogits);
}
double cross_entropy(std::int64_t rows, std::int64_t vocab, const bf16* logits,
                     const std::int64_t* targets, float scale, bf16* dlogits) {
  return HWY_DYNAMIC_DISPATCH(cross_entropy_bf16)(rows, vocab, logits, targets, scale, dlogits);
}

}  // namespace ddprun::kernels
#endif
