// What a checkpoint says of itself: its file state.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "ddprun/checkpoint/tensor_file.h"

namespace ddprun {

struct CheckpointState {
  std::int64_t step = 0;     ///< steps that are done
  std::int64_t updates = 0;  ///< those of them that updated parameters
  std::int64_t ranks = 1, global_batch = 0;
  std::string strategy = {}, precision = {}, optimizer = {};
  std::string ddprun = {}, torch = {};  ///< versions
  std::string config = {};              ///< the experiment, as resolved YAML
  std::uint64_t data = 0;               ///< hash of the contents that were trained on; 0: random
  std::map<std::string, FileHashes> files = {};
};

inline constexpr const char* kStateFile = "state.json";
/// Parameters; moments; what rank `rank` alone has.
inline constexpr const char* kModelFile = "model.safetensors";
inline constexpr const char* kOptimizerFile = "optimizer.safetensors";
std::string rank_file(std::int64_t rank);

std::string to_json_text(const CheckpointState& state);
/// Tells checkpoints apart.
std::uint64_t hash_of(const CheckpointState& state);
/// Throws std::runtime_error, or what nlohmann::json throws, if it is not such a text.
CheckpointState state_from_text(const std::string& text);
/// Reads DIR/state.json. Throws ConfigError if it cannot be read, or is not what this version
/// writes.
CheckpointState read_state(const std::filesystem::path& folder);

/// "step-00000200", and back; -1: it is no such name.
std::string checkpoint_name(std::int64_t step);
std::int64_t checkpoint_step(const std::string& name);
/// The file beside checkpoints that names the latest.
inline constexpr const char* kLatestFile = "latest";
/// The checkpoints in a folder that is there, by step.
std::map<std::int64_t, std::filesystem::path> checkpoints_in(const std::filesystem::path& folder);
/// The checkpoint at `path`: that folder itself, or of those in it the one that `latest` names;
/// where there is no such file yet, the one of the highest step. Empty: there is none. Throws
/// ConfigError if `latest` names what is not there.
std::filesystem::path find_checkpoint(const std::filesystem::path& path);
/// The same. Throws ConfigError, with that hint, if there is none.
std::filesystem::path checkpoint_at(
    const std::filesystem::path& path,
    const std::string& hint = "train.checkpoint in a YAML file says where a run saves them");

}  // namespace ddprun
