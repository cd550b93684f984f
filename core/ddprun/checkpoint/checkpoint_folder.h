// A folder of checkpoints: each is there whole, or not at all.
#pragma once

#include <cstdint>
#include <filesystem>

#include "ddprun/base/descriptor.h"
#include "ddprun/checkpoint/checkpoint_state.h"

namespace ddprun {

/// For the one process that names checkpoints: rank 0. Locked until it goes, with the process if
/// need be.
class CheckpointFolder {
 public:
  /// Creates the folder, locks it, and removes what saves that were cut short left. Throws Error if
  /// it cannot be written, or another process has it.
  explicit CheckpointFolder(std::filesystem::path path);

  /// A new hidden folder for the files of step `step`.
  void begin(std::int64_t step);
  /// Its files are on the disk: writes state.json, gives the folder its name, and names it in
  /// `latest`. Throws Error.
  void complete(const CheckpointState& state);
  /// Removes what saves that failed left, whose room the next one may need.
  void remove_unfinished();
  /// Removes checkpoints up to step `step`, the oldest first, until `keep` are left (0: all); but
  /// none of a step that `keep_every` divides (0: no such step).
  void prune(std::int64_t step, std::int64_t keep, std::int64_t keep_every);

 private:
  std::filesystem::path make_room(const CheckpointState& state);

  std::filesystem::path path_;
  Descriptor lock_;
};

/// Where the files of step `step` are written until they are whole.
std::filesystem::path hidden_checkpoint(const std::filesystem::path& folder, std::int64_t step);

}  // namespace ddprun
