// A linear layer in float64 that keeps no float64 copy of its weight.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddprun {

/// x weight^T (..., out) of x (..., in) in float64 and weight (out, in) in another dtype, which is
/// cast anew in backward: copies of all weights would take twice the memory of the model, or more
/// where a rank has a part of it. Differentiable once.
at::Tensor linear_in_double(const at::Tensor& x, const at::Tensor& weight);

}  // namespace ddprun
