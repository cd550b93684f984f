// One number added many times, in two ways that must agree: as a PyTorch user's loop does it, and
// by C++'s scalars.
#pragma once

#include <c10/core/Device.h>

#include "ddprun/experiments/precision/demonstration_config.h"

namespace ddprun {

/// What came of it, in float64, which holds every number of the smaller types.
struct Accumulated {
  double sum = 0;
  double addend = 0;  ///< what the addend was rounded to
};

/// By a loop over ATen's operators on scalars () that lie on `device`, as in CS336's assignment on
/// mixed precision: sum += addend.
Accumulated accumulate_by_tensors(const DemonstrationConfig& config, c10::Device device);

/// By scalar arithmetic: each sum is rounded once, to the nearest number of its type.
Accumulated accumulate_by_scalars(const DemonstrationConfig& config);

}  // namespace ddprun
