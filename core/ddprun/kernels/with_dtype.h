// From a tensor's dtype to the element type of a kernel.
#pragma once

#include <ATen/core/Tensor.h>

#include "ddprun/kernels/types.h"

namespace ddprun::kernels {

/// Calls f with a zero of the C++ type of the tensor's values: float or bf16.
template <typename F>
void with_dtype(const at::Tensor& values, const F& f) {
  const at::ScalarType dtype = values.scalar_type();
  TORCH_CHECK(dtype == at::kFloat || dtype == at::kBFloat16, "fused kernels compute in float32 or ",
              "bfloat16, not in ", dtype);
  if (dtype == at::kFloat) {
    f(float{});
  } else {
    f(bf16{});
  }
}

}  // namespace ddprun::kernels
