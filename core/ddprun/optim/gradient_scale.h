// What the optimizer makes of the gradients as it reads them.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddprun {

/// Scalars (), float32, on the gradients' device, so that nobody waits for a GPU to learn them.
/// Undefined: gradients are taken as they are, and no step is skipped.
struct GradientScale {
  at::Tensor factor = {};    ///< multiplies each gradient: a loss scaled back, clipping
  at::Tensor overflow = {};  ///< above 0: the step updates nothing
};

}  // namespace ddprun
