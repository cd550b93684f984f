// Negation in place, compiled once a SIMD level and chosen at run time.
#include "negate.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "negate.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ddprun/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ddprun::HWY_NAMESPACE {

namespace simd = kernels::HWY_NAMESPACE;
namespace hn = hwy::HWY_NAMESPACE;

void negate_pair(std::int64_t count, float* x, float* y) {
  simd::for_vectors(0, count, [=](auto lanes, std::int64_t i) HWY_ATTR {
    simd::store(hn::Neg(simd::load(x + i, lanes)), x + i, lanes);
    simd::store(hn::Neg(simd::load(y + i, lanes)), y + i, lanes);
  });
}

void negate(std::int64_t count, float* x) {
  simd::for_vectors(0, count, [=](auto lanes, std::int64_t i) HWY_ATTR {
    simd::store(hn::Neg(simd::load(x + i, lanes)), x + i, lanes);
  });
}

}  // namespace ddprun::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ddprun {

HWY_EXPORT(negate_pair);
HWY_EXPORT(negate);

void negate_pair(std::int64_t count, float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(negate_pair)(count, x, y);
}
void negate(std::int64_t count, float* x) { HWY_DYNAMIC_DISPATCH(negate)(count, x); }

}  // namespace ddprun
#endif
