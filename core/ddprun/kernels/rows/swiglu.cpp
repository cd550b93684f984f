// SwiGLU and its gradient, with the sigmoid computed in registers.
#include "ddprun/kernels/rows/swiglu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ddprun/kernels/rows/swiglu.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ddprun/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ddprun::kernels::HWY_NAMESPACE {

/// 1 / (1 + e^-x) = e^x / (1 + e^x), between e^-87 and 1. At some levels it is no NaN for NaN:
/// whoever needs one multiplies by x as well.
HWY_INLINE Vector sigmoid(Vector x) {
  const Vector bounded = hn::Min(hn::Set(kFloats, 87.0f), hn::Max(hn::Set(kFloats, -87.0f), x));
  const Vector power = exp_of_normal(bounded);
  return hn::Div(power, hn::Add(hn::Set(kFloats, 1.0f), power));
}

template <class T>
void swiglu(std::int64_t rows, std::int64_t width, const T* up_gate, T* h) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* const ups = up_gate + row * 2 * width;
    const T* const gates = ups + width;
    T* const h_row = h + row * width;
    for_vectors(0, width, [&](auto lanes, std::int64_t i) HWY_ATTR {
      const Vector gate = load(gates + i, lanes);
      const Vector silu = hn::Mul(gate, sigmoid(gate));
      store(hn::Mul(silu, load(ups + i, lanes)), h_row + i, lanes);
    });
  }
}

/// With s = sigmoid(gate): silu = gate s, silu' = s + silu (1 - s).
template <class T>
void swiglu_backward(std::int64_t rows, std::int64_t width, const T* dh, const T* up_gate,
                     T* d_up_gate, T* h) {
  const Vector one = hn::Set(kFloats, 1.0f);
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* const ups = up_gate + row * 2 * width;
    T* const d_ups = d_up_gate + row * 2 * width;
    const T* const dh_row = dh + row * width;
    for_vectors(0, width, [&](auto lanes, std::int64_t i) HWY_ATTR {
      const Vector up = load(ups + i, lanes);
      const Vector gate = load(ups + width + i, lanes);
      const Vector dh_here = load(dh_row + i, lanes);
      const Vector s = sigmoid(gate);
      const Vector silu = hn::Mul(gate, s);
      const Vector slope = hn::MulAdd(silu, hn::Sub(one, s), s);
      store(hn::Mul(dh_here, silu), d_ups + i, lanes);
      store(hn::Mul(hn::Mul(dh_here, up), slope), d_ups + width + i, lanes);
      if (h != nullptr) store(hn::Mul(silu, up), h + row * width + i, lanes);
    });
  }
}

}  // namespace ddprun::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ddprun::kernels {

template <class T>
void swiglu(std::int64_t rows, std::int64_t width, const T* up_gate, T* h) {
  DDPRUN_DISPATCH(swiglu, T)(rows, width, up_gate, h);
}
template <class T>
void swiglu_backward(std::int64_t rows, std::int64_t width, const T* dh, const T* up_gate,
                     T* d_up_gate, T* h) {
  DDPRUN_DISPATCH(swiglu_backward, T)(rows, width, dh, up_gate, d_up_gate, h);
}

#define DDPRUN_SWIGLU(T)                                          \
  template void swiglu(std::int64_t, std::int64_t, const T*, T*); \
  template void swiglu_backward(std::int64_t, std::int64_t, const T*, const T*, T*, T*)
DDPRUN_SWIGLU(float);
DDPRUN_SWIGLU(bf16);

}  // namespace ddprun::kernels
#endif
