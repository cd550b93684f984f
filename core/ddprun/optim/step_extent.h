// How far a step of training goes: `train.measure`.
#pragma once

#include <array>
#include <cstdint>

namespace ddprun {

/// Each goes further than the one before it.
enum class StepExtent : std::uint8_t {
  forward,           ///< the loss, without gradients
  forward_backward,  ///< and the gradients' mean over the ranks, without an update
  step,              ///< and the update
};
constexpr auto choice_names(StepExtent) {
  return std::array{"forward", "forward_backward", "step"};
}

}  // namespace ddprun
