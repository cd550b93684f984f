// How many elements of a result are not what they should be.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ddprun {

/// Of two tensors of one shape. `tolerance`: relative to the largest expected element; 0: bit by
/// bit, but for the sign of zero. Each NaN equals another.
std::int64_t count_unequal(const at::Tensor& got, const at::Tensor& expected, double tolerance = 0);

}  // namespace ddprun
