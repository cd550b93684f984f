// Checkpoints that a command line names.
#pragma once

#include <filesystem>

#include "ddprun/checkpoint/checkpoint_state.h"
#include "ddprun/config/config_node.h"
#include "ddprun/model/model_config.h"

namespace ddprun {

/// The experiment that wrote it, resolved. Throws ConfigError.
ConfigNode experiment_of(const CheckpointState& state, const std::filesystem::path& folder);

/// Its section `model:`. Throws ConfigError.
ModelConfig model_of(const ConfigNode& experiment);

}  // namespace ddprun
