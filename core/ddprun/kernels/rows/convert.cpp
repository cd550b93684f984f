// Element-wise kernels between arrays, compiled once a SIMD level and chosen at run time.
#include "ddprun/kernels/rows/convert.h"

#include <algorithm>
#include <cstring>

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

void copy_past_caches(std::int64_t bytes, const void* from, void* to) {
  const hn::ScalableTag<std::uint8_t> tag;
  const auto vector = static_cast<std::int64_t>(hn::Lanes(tag));
  const auto* const in = static_cast<const std::uint8_t*>(from);
  auto* const out = static_cast<std::uint8_t*>(to);
  const auto beyond = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(out) %
                                                static_cast<std::uintptr_t>(vector));
  std::int64_t i = std::min(bytes, (vector - beyond) % vector);  // up to a whole vector of `to`
  std::memcpy(out, in, static_cast<std::size_t>(i));
  for (; i + vector <= bytes; i += vector) hn::Stream(hn::LoadU(tag, in + i), tag, out + i);
  std::memcpy(out + i, in + i, static_cast<std::size_t>(bytes - i));
  hwy::FlushStream();
}

}  // namespace ddprun::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ddprun::kernels {

HWY_EXPORT(to_bf16);
HWY_EXPORT(to_float);
HWY_EXPORT(accumulate_scaled);
HWY_EXPORT(copy_past_caches);

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
void copy_past_caches(std::int64_t bytes, const void* from, void* to) {
  HWY_DYNAMIC_DISPATCH(copy_past_caches)(bytes, from, to);
}

}  // namespace ddprun::kernels
#endif
