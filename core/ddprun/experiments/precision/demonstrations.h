// What is demonstrated: one number added many times, in two ways that must agree, as a PyTorch
// user's loop does it and by C++'s scalars; and which dtype each tensor of a small model has under
// autocast, read off the tensors.
//
// Family: accumulation.cpp autocast_dtypes.cpp
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <utility>
#include <vector>

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

/// A forward under autocast and a backward, of CS336's ToyModel: fc1 without bias, ReLU, LayerNorm,
/// fc2 without bias, then the cross-entropy of its logits.
struct AutocastDtypes {
  /// Each tensor and its dtype, in the order of the model: "parameters", "fc1", ... "gradients".
  std::vector<std::pair<std::string, std::string>> tensors;
  bool finite = false;       ///< all outputs and gradients
  bool fc1_by_hand = false;  ///< fc1's output is that of operands cast by hand, bit for bit
};

AutocastDtypes measure_autocast(AutocastType type, c10::Device device);

}  // namespace ddprun
