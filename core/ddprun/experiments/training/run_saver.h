// Saves the state of a run every few steps, outside measured time.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "ddprun/base/descriptor.h"
#include "ddprun/checkpoint/tensor_file.h"
#include "ddprun/experiments/training/trainer.h"
#include "ddprun/result/rank_result.h"

namespace ddprun {

/// Where the experiment's checkpoints are: in train.checkpoint.path, of a sweep in a folder of the
/// point's own. Empty: nowhere.
std::filesystem::path checkpoint_folder(const Experiment& experiment);

/// Throws ConfigError if the run would save into a folder that has checkpoints of another run.
/// `resumed`: the checkpoint that it goes on from, if any.
void check_checkpoint_folder(const Experiment& experiment, const std::filesystem::path& resumed);

/// Every rank writes what it owns into files that rank 0 has made, in a hidden folder. Once all of
/// it is on the disk that folder gets its name. So a checkpoint is there whole, or not at all. A
/// save that fails leaves those before, and training goes on. All ranks call it alike, between
/// steps.
class RunSaver {
 public:
  /// All outlive this object. `resumed`: the checkpoint that the run goes on from, if any. Throws
  /// Error if the folder cannot be written, is another run's, or another run saves into it.
  RunSaver(const Experiment& experiment, Trainer& trainer, ProcessGroup& group,
           const std::filesystem::path& resumed);

  /// After step `index`: saves if it is time to.
  void after_step(std::int64_t index);
  /// What was saved, in order.
  const std::vector<SavedCheckpoint>& saved() const { return saved_; }

 private:
  void begin(const std::filesystem::path& resumed);
  /// Returns what failed on the first rank where something did, in words.
  std::string save(std::int64_t step);
  /// A file into which all ranks write; `own`: what this one has of it.
  struct SharedFile {
    const char* name;
    TensorFileLayout layout;
    std::vector<TensorPart> own;
  };
  std::vector<SharedFile> shared_files();
  /// On rank 0.
  static void create_files(const std::filesystem::path& hidden,
                           const std::vector<SharedFile>& shared);
  std::map<std::string, FileHashes> write_own(const std::filesystem::path& hidden,
                                              const std::vector<SharedFile>& shared);
  void complete(const std::filesystem::path& hidden, std::int64_t step,
                const std::vector<std::string>& hashes);
  void prune(std::int64_t step);

  const Experiment& experiment_;
  Trainer& trainer_;
  ProcessGroup& group_;
  std::filesystem::path folder_;  ///< empty: nothing is saved
  Descriptor lock_;               ///< rank 0's
  std::vector<SavedCheckpoint> saved_;
};

}  // namespace ddprun
