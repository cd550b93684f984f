// RMSNorm (Zhang and Sennrich 2019, equation 4): y = x / sqrt(mean(x^2) + eps) * weight, by rows.
#pragma once

#include <cstdint>

#include "ddprun/kernels/types.h"

namespace ddprun::kernels {

/// y = norm(x). inverse_rms[row] is kept for backward. x, y: (rows, width); weight: (width);
/// inverse_rms: (rows). T: float or bf16.
template <class T>
void rms_norm(std::int64_t rows, std::int64_t width, float eps, const float* x, const float* weight,
              T* y, float* inverse_rms);

/// What forward took and kept.
struct NormedRows {
  std::int64_t rows, width;
  const float *x, *weight, *inverse_rms;
};

/// dx = dsum + the gradient of the norm at x. dsum may be dx, or null, which means zero. dweight
/// (width) += the weight's gradient, summed over the rows.
template <class T>
void rms_norm_backward(const NormedRows& forward, const T* dy, const float* dsum, float* dx,
                       float* dweight);

}  // namespace ddprun::kernels
