// Which dtype each tensor of a small model has under autocast, read off the tensors.
#pragma once

#include <c10/core/Device.h>

#include <string>
#include <utility>
#include <vector>

#include "ddprun/experiments/precision/demonstration_config.h"

namespace ddprun {

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
