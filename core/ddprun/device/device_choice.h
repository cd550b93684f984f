// What an experiment chooses of a device: which kind, and how it is given its work.
#pragma once

#include <array>

namespace ddprun {

/// `world.device`
enum class DeviceKind { cpu, cuda };
constexpr auto choice_names(DeviceKind) { return std::array{"cpu", "cuda"}; }

/// `execution.mode`: operator by operator, or each step as one captured graph.
enum class ExecutionMode { eager, cuda_graph };
constexpr auto choice_names(ExecutionMode) { return std::array{"eager", "cuda_graph"}; }

}  // namespace ddprun
