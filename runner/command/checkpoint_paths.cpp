// Reads what a checkpoint says of its experiment.
#include "runner/command/checkpoint_paths.h"

#include "ddprun/config/options_io.h"

namespace ddprun {

namespace fs = std::filesystem;

ConfigNode experiment_of(const CheckpointState& state, const fs::path& folder) {
  return parse_yaml(state.config, (folder / kStateFile).string());
}

ModelConfig model_of(const ConfigNode& experiment) {
  const ConfigNode* const model = experiment.find("model");
  ModelConfig config;
  read_options(model == nullptr ? ConfigNode() : *model, "model",
               [&](Options& options) { declare_options(options, config); });
  return config;
}

}  // namespace ddprun
