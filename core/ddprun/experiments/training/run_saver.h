// Saves the state of a run, outside measured time.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "ddprun/checkpoint/checkpoint_folder.h"
#include "ddprun/checkpoint/tensor_file.h"
#include "ddprun/experiments/training/trainer.h"
#include "ddprun/rank/asked_by_signal.h"
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
/// steps. With train.checkpoint.async threads write a copy, and then name the folder, while
/// training goes on.
class RunSaver {
 public:
  /// All outlive this object. `resumed`: the checkpoint that the run goes on from, if any. Throws
  /// Error if the folder cannot be written, is another run's, or another run saves into it.
  RunSaver(const Experiment& experiment, Trainer& trainer, ProcessGroup& group,
           const std::filesystem::path& resumed);

  /// After step `index`: saves if it is time to. Throws Error, when it has saved, if a signal asked
  /// the run to end.
  void after_step(std::int64_t index);
  /// Returns when this rank does nothing beside training.
  void wait_for_work();
  const std::vector<SavedCheckpoint>& saved() const { return saved_; }

 private:
  /// A file into which all ranks write; `own`: what this one has of it.
  struct SharedFile {
    const char* name;
    TensorFileLayout layout;
    std::vector<TensorPart> own;
  };
  struct Pending {
    std::int64_t step = 0, updates = 0, begin_ns = 0;
    double stall_s = 0;
    std::int64_t steps_beside = 0;
    std::vector<SharedFile> shared = {};
    SharedTensors alone = {};  ///< what this rank alone has
    std::map<std::string, FileHashes> hashes = {};
    bool named = false;        ///< whether what is done now, or done, is giving the folder its name
    std::int64_t bytes = 0;    ///< on the disk, in the end; known to rank 0
    std::string failure = {};  ///< this rank's
    std::atomic<bool> done = false;
    std::jthread worker = {};  ///< only with async; ends before what it uses
  };
  /// What ranks know together between two steps.
  struct Asked {
    bool save = false, end = false, all_done = false;
  };

  Asked ask_all();
  bool due(std::int64_t step, const Asked& asked) const;
  void begin(std::int64_t step);
  std::vector<SharedFile> shared_files();
  /// Takes copies, in memory that the next save takes again.
  void copy_state(Pending& pending);
  void write_own(Pending& pending) const;
  /// Does this rank's part of a save: beside training with async, else now.
  void work_on(const std::function<void(Pending&)>& part);
  /// Waits for the part that is under way on all ranks, and begins what comes after it, if
  /// anything.
  void go_on();
  /// Of rank 0: gives the folder its name, and takes away those that are not to be kept.
  void name(Pending& pending, const std::vector<std::string>& hashes);
  /// `failure`: why nothing was saved, the same on all ranks; else empty.
  void end_save(const std::string& failure);
  CheckpointState state_of(const Pending& pending, const std::vector<std::string>& hashes) const;

  const Experiment& experiment_;
  Trainer& trainer_;
  ProcessGroup& group_;
  std::filesystem::path path_;              ///< empty: nothing is saved
  std::optional<CheckpointFolder> folder_;  ///< rank 0's
  std::optional<AskedBySignal> signals_;
  std::int64_t last_ns_ = 0;  ///< when the last save began, or the run
  std::vector<at::Tensor> copies_;
  std::vector<SavedCheckpoint> saved_;
  std::unique_ptr<Pending> pending_;
};

}  // namespace ddprun
