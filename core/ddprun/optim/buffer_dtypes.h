// In which dtypes the flat buffers are.
#pragma once

#include <c10/core/ScalarType.h>

namespace ddprun {

/// Each is float32 or bfloat16.
struct BufferDtypes {
  /// Of the matrix products and of what they read and write. The fused kernels read a copy of the
  /// parameters in it; with float32 there is no copy. It may also be float16 if there are no fused
  /// kernels.
  c10::ScalarType compute = c10::kFloat;
  /// Of the gradients that ranks exchange.
  c10::ScalarType reduce = c10::kFloat;
  /// Of the model's own tensors, and of gradients while backward accumulates them. If it is
  /// bfloat16, so must be the two above.
  c10::ScalarType model = c10::kFloat;
  /// Of the parameters that the optimizer updates. If it is float32 and `model` is bfloat16, they
  /// are masters, and the model's tensors are views of their copy. If it is bfloat16, `model` must
  /// be, and there are no masters: the model's tensors are views of the parameters.
  c10::ScalarType parameters = c10::kFloat;
  /// Of the moments, which the optimizer allocates. bfloat16 needs parameters in bfloat16. The
  /// optimizer computes in float32 in any case.
  c10::ScalarType moments = c10::kFloat;
};

/// Throws ConfigError if they do not fit each other.
void check_dtypes(const BufferDtypes& dtypes);

}  // namespace ddprun
