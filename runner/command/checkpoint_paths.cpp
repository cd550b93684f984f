// Finds a checkpoint, and reads what its experiment says.
#include "runner/command/checkpoint_paths.h"

#include "ddprun/base/error.h"
#include "ddprun/config/options_io.h"

namespace ddprun {

namespace fs = std::filesystem;

fs::path checkpoint_at(const std::string& path) {
  fs::path found = find_checkpoint(path);
  if (!found.empty()) return found;
  throw ConfigError({.what = "there is no checkpoint",
                     .where = path,
                     .got = fs::exists(path) ? "a folder without one" : "nothing of that name",
                     .expected = "a checkpoint, or a folder of them",
                     .hint = "train.checkpoint in a YAML file says where a run saves them"});
}

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
