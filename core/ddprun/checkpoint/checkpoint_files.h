// The files of a checkpoint, held against what its state.json says of them, and against another's.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ddprun/checkpoint/checkpoint_state.h"

namespace ddprun {

/// Reads every `ranks`-th tensor from number `rank` on, and says what is wrong first, as in
/// "model.safetensors: lm_head.weight: another hash than when it was saved": a file that is not
/// there, a tensor without a hash of each of its elements, other bytes, a parameter or a moment
/// that is not finite. Empty: nothing is wrong. Throws ConfigError if a file is no such file.
std::string first_damage(const std::filesystem::path& folder, const CheckpointState& state,
                         int rank = 0, int ranks = 1);

struct CheckpointDifference {
  std::string file, name;
  std::string words;  ///< "only in the first", or both shapes, or how far values are apart
};
/// What two checkpoints differ in, in the order of files and tensors. Throws ConfigError.
std::vector<CheckpointDifference> differences(const std::filesystem::path& first,
                                              const std::filesystem::path& second);

}  // namespace ddprun
