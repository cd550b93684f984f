// The arithmetic of the shm backend: reduces elements of several ranks and writes the result to
// several places.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "ddprun/comm/group/collective.h"

namespace ddprun {

/// Whether reduce_elements can do this: sum and max of float32, float64, bfloat16, int32, int64,
/// int8 and uint8; avg of the floating-point ones.
bool can_reduce(at::ScalarType type, ReduceOp op);

/// Every output = op over the inputs, `bytes` of each, elements of `type`. Inputs are added in
/// their order; bfloat16 is added in float32 and rounded once. avg divides the sum once. max of a
/// NaN is NaN. The bits are the same on every CPU and however a range is cut. An output may be an
/// input.
void reduce_elements(at::ScalarType type, ReduceOp op, std::int64_t bytes,
                     std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs);

}  // namespace ddprun
