// What `ddprun checkpoint` does with checkpoints.
#pragma once

#include <array>
#include <cstdint>

namespace ddprun {

enum class CheckpointAction : std::uint8_t { inspect, verify, diff, export_hf };
constexpr auto choice_names(CheckpointAction) {
  return std::array{"inspect", "verify", "diff", "export"};
}

}  // namespace ddprun
