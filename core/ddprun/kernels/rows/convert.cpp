// Element-wise kernels between arrays, compiled once a SIMD level and chosen at run time.
#include "ddprun/kernels/rows/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ddprun/kernels/rows/convert.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ddprun/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ddprun::kernels::HWY_NAMESPACE {

void to_bf16(std::int64_t count, const float* from, bf16* to) {
  for_vectors(0, count, [=](auto lanes, std::int64_t i) HWY_ATTR {
    store(load(from + i, lanes), to + i, lanes);
  });
}

void to_float(std::int64_t count, const bf16* from, float* to) {
  for_vectors(0, count, [=](auto lanes, std::int64_t i) HWY_ATTR {
    store(load(from + i, lanes), to + i, lanes);
  });
}

template <class T>
void add(std::int64_t count, const float* x, const T* y, float* out) {
  for_vectors(0, count, [=](auto lanes, std::int64_t i) HWY_ATTR {
    store(hn::Add(load(x + i, lanes), load(y + i, lanes)), out + i, lanes);
  });
}

void accumulate_scaled(std::int64_t count, float scale, const float* x, float* out) {
  const Vector factor = hn::Set(kFloats, scale);
  for_vectors(0, count, [=](auto lanes, std::int64_t i) HWY_ATTR {
    store(hn::MulAdd(factor, load_ahead(x + i, lanes), load_ahead(out + i, lanes)), out + i, lanes);
  });
}

}  // namespace ddprun::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ddprun::kernels {

HWY_EXPORT(to_bf16);
HWY_EXPORT(to_float);
HWY_EXPORT(accumulate_scaled);

void to_bf16(std::int64_t count, const float* from, bf16* to) {
  HWY_DYNAMIC_DISPATCH(to_bf16)(count, from, to);
}
void to_float(std::int64_t count, const bf16* from, float* to) {
  HWY_DYNAMIC_DISPATCH(to_float)(count, from, to);
}
template <class T>
void add(std::int64_t count, const float* x, const T* y, float* out) {
  DDPRUN_DISPATCH(add, T)(count, x, y, out);
}
template void add(std::int64_t, const float*, const float*, float*);
template void add(std::int64_t, const float*, const bf16*, float*);
void accumulate_scaled(std::int64_t count, float scale, const float* x, float* out) {
  HWY_DYNAMIC_DISPATCH(accumulate_scaled)(count, scale, x, out);
}

}  // namespace ddprun::kernels
#endif
