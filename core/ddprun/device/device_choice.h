// What an experiment chooses about its device: which kind it is, and how steps are launched on it.
#pragma once

#include <array>

namespace ddprun {

/// `world.device`
enum class DeviceKind { cpu, cuda };
constexpr auto choice_names(DeviceKind) { return std::array{"cpu", "cuda"}; }

/// `execution.mode`: steps run operator by operator, or each step is a replay of one captured
/// graph.
enum class ExecutionMode { eager, cuda_graph };
constexpr auto choice_names(ExecutionMode) { return std::array{"eager", "cuda_graph"}; }

}  // namespace ddprun
