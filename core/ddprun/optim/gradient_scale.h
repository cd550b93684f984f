// How the optimizer scales gradients as it reads them, and whether it skips the step.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddprun {

/// Float32 scalars () on the gradients' device, so that nobody waits for a GPU to read them. If
/// they are undefined, gradients are taken as they are and no step is skipped.
struct GradientScale {
  at::Tensor factor = {};    ///< multiplies each gradient: a loss scaled back, clipping
  at::Tensor overflow = {};  ///< above 0: the step updates nothing
};

}  // namespace ddprun
