// RMSNorm (Zhang and Sennrich 2019, equation 4): y = x / sqrt(mean(x^2) + eps) * weight, by rows.
#pragma once

#include <cstdint>

#include "ddprun/kernels/types.h"

namespace ddprun::kernels {

/// y = norm(x). inverse_rms[row] is kept for backward. x, y: (rows, width); weight: (width);
/// inverse_rms: (rows).
void rms_norm(std::int64_t rows, std::int64_t width, float eps, const float* x, const float* weight,
              float* y, float* inverse_rms);
void rms_norm(std::int64_t rows, std::int64_t width, float eps, const float* x, const float* weight,
              bf16* y, float* inverse_rms);

/// dx = dsum + the gradient of the norm at x. inverse_rms is that of the forward pass. dsum may be
/// dx, or null, which means zero. dweight (width) += the weight's gradient, summed over the rows.
void rms_norm_backward(std::int64_t rows, std::int64_t width, const float* dy, const float* x,
                       const float* weight, const float* inverse_rms, const float* dsum, float* dx,
                       float* dweight);
void rms_norm_backward(std::int64_t rows, std::int64_t width, const bf16* dy, const float* x,
                       const float* weight, const float* inverse_rms, const float* dsum, float* dx,
                       float* dweight);

}  // namespace ddprun::kernels
