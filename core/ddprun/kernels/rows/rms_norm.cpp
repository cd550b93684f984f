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
HWY_INLINE void rms_norm(std::int64_t rows, std::int64_t width, float eps, const float* x,
                         const float* weight, T* y, float* inverse_rms) {
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

void rms_norm_float(std::int64_t rows, std::int64_t width, float eps, const float* x,
                    const float* weight, float* y, float* inverse_rms) {
  rms_norm(rows, width, eps, x, weight, y, inverse_rms);
}
void rms_norm_bf16(std::int64_t rows, std::int64_t width, float eps, const float* x,
                   const float* weight, bf16* y, float* inverse_rms) {
  rms_norm(rows, width, eps, x, weight, y, inverse_rms);
}

/// With r = inverse_rms: dx = r (dy weight - x r^2 mean(dy weight x)), dweight = dy x r.
template <class T>
HWY_INLINE void rms_norm_backward(std::int64_t rows, std::int64_t width, const T* dy,
                                  const float* x, const float* weight, const float* inverse_rms,
                                  const float* dsum, float* dx, float* dweight) {
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

void rms_norm_backward_float(std::int64_t rows, std::int64_t width, const float* dy, const float* x,
                             const float* weight, const float* inverse_rms, const float* dsum,
                             float* dx, float* dweight) {
  rms_norm_backward(rows, width, dy, x, weight, inverse_rms, dsum, dx, dweight);
}
void rms_norm_backward_bf16(std::int64_t rows, std::int64_t width, const bf16* dy, const float* x,
                            const float* weight, const float* inverse_rms, const float* dsum,
                            float* dx, float* dweight) {
  rms_norm_backward(rows, width, dy, x, weight, inverse_rms, dsum, dx, dweight);
}

}  // namespace ddprun::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ddprun::kernels {

HWY_EXPORT(rms_norm_float);
HWY_EXPORT(rms_norm_bf16);
HWY_EXPORT(rms_norm_backward_float);
HWY_EXPORT(rms_norm_backward_bf16);

void rms_norm(std::int64_t rows, std::int64_t width, float eps, const float* x, const float* weight,
              float* y, float* inverse_rms) {
  HWY_DYNAMIC_DISPATCH(rms_norm_float)(rows, width, eps, x, weight, y, inverse_rms);
}
void rms_norm(std::int64_t rows, std::int64_t width, float eps, const float* x, const float* weight,
              bf16* y, float* inverse_rms) {
  HWY_DYNAMIC_DISPATCH(rms_norm_bf16)(rows, width, eps, x, weight, y, inverse_rms);
}
void rms_norm_backward(std::int64_t rows, std::int64_t width, const float* dy, const float* x,
                       const float* weight, const float* inverse_rms, const float* dsum, float* dx,
                       float* dweight) {
  HWY_DYNAMIC_DISPATCH(rms_norm_backward_float)
  (rows, width, dy, x, weight, inverse_rms, dsum, dx, dweight);
}
void rms_norm_backward(std::int64_t rows, std::int64_t width, const bf16* dy, const float* x,
                       const float* weight, const float* inverse_rms, const float* dsum, float* dx,
                       float* dweight) {
  HWY_DYNAMIC_DISPATCH(rms_norm_backward_bf16)
  (rows, width, dy, x, weight, inverse_rms, dsum, dx, dweight);
}

}  // namespace ddprun::kernels
#endif
