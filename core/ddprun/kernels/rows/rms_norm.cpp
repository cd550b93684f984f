// RMSNorm and its gradient: two passes over a row, the second of them in the first-level cache.
#include "ddprun/kernels/rows/rms_norm.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ddprun/kernels/rows/rms_norm.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h.
#include "ddprun/kernels/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ddprun::kernels::HWY_NAMESPACE {

HWY_INLINE float square_sum_of_row(std::int64_t width, const float* x) {
  return sum_of_lanes(fold_sum(0, width, [&](auto lanes, std::int64_t i, Vector squares) HWY_ATTR {
    const Vector value = load(x + i, lanes);
    return hn::MulAdd(value, value, squares);
  }));
}

template <class T>
void rms_norm(std::int64_t rows, std::int64_t width, float eps, const float* x, const float* weight,
              T* y, float* inverse_rms) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t first = row * width;
    const float squares = square_sum_of_row(width, x + first);
    inverse_rms[row] = 1.0f / std::sqrt(squares / static_cast<float>(width) + eps);
    const Vector factor = hn::Set(kFloats, inverse_rms[row]);
    for_vectors(0, width, [&](auto lanes, std::int64_t i) HWY_ATTR {
      const Vector normalized = hn::Mul(load(x + first + i, lanes), factor);
      store(hn::Mul(normalized, load(weight + i, lanes)), y + first + i, lanes);
    });
  }
}

/// With r = inverse_rms: dx = r (dy weight - x r^2 mean(dy weight x)), dweight = dy x r.
template <class T>
void rms_norm_backward(const NormedRows& forward, const T* dy, const float* dsum, float* dx,
                       float* dweight) {
  const auto [rows, width, x, weight, inverse_rms] = forward;
  for (std::int64_t row = 0; row < rows; ++row) {
    const T* const dy_row = dy + row * width;
    const float* const x_row = x + row * width;
    float* const dx_row = dx + row * width;
    const float r = inverse_rms[row];
    const Vector factor = hn::Set(kFloats, r);
    const auto fold_products = [&](auto lanes, std::int64_t i, Vector products) HWY_ATTR {
      const Vector product = hn::Mul(load(dy_row + i, lanes), load(x_row + i, lanes));
      store(hn::MulAdd(product, factor, load(dweight + i, lanes)), dweight + i, lanes);
      return hn::MulAdd(product, load(weight + i, lanes), products);
    };
    const float mean = sum_of_lanes(fold_sum(0, width, fold_products)) / static_cast<float>(width);
    const Vector pull = hn::Set(kFloats, r * r * r * mean);
    const auto gradient = [&](auto lanes, std::int64_t i) HWY_ATTR {
      const Vector scaled = hn::Mul(load(dy_row + i, lanes), load(weight + i, lanes));
      return hn::NegMulAdd(pull, load(x_row + i, lanes), hn::Mul(scaled, factor));
    };
    if (dsum == nullptr) {
      for_vectors(0, width, [&](auto lanes, std::int64_t i) HWY_ATTR {
        store(gradient(lanes, i), dx_row + i, lanes);
      });
    } else {
      const float* const dsum_row = dsum + row * width;
      for_vectors(0, width, [&](auto lanes, std::int64_t i) HWY_ATTR {
        store(hn::Add(load(dsum_row + i, lanes), gradient(lanes, i)), dx_row + i, lanes);
      });
    }
  }
}

}  // namespace ddprun::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ddprun::kernels {

template <class T>
void rms_norm(std::int64_t rows, std::int64_t width, float eps, const float* x, const float* weight,
              T* y, float* inverse_rms) {
  DDPRUN_DISPATCH(rms_norm, T)(rows, width, eps, x, weight, y, inverse_rms);
}
template <class T>
void rms_norm_backward(const NormedRows& forward, const T* dy, const float* dsum, float* dx,
                       float* dweight) {
  DDPRUN_DISPATCH(rms_norm_backward, T)(forward, dy, dsum, dx, dweight);
}

#define DDPRUN_RMS_NORM(T)                                                                  \
  template void rms_norm(std::int64_t, std::int64_t, float, const float*, const float*, T*, \
                         float*);                                                           \
  template void rms_norm_backward(const NormedRows&, const T*, const float*, float*, float*)
DDPRUN_RMS_NORM(float);
DDPRUN_RMS_NORM(bf16);

}  // namespace ddprun::kernels
#endif
