// Goes on from a checkpoint.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>

#include "ddprun/checkpoint/checkpoint_state.h"
#include "ddprun/experiments/training/trainer.h"
#include "ddprun/result/check.h"

namespace ddprun {

class Resumption;
/// Throws Error unless it is what the run was planned with.
void check_planned(const std::optional<Resumption>& resumed, const Experiment& experiment);

/// A checkpoint that fits an experiment.
class Resumption {
 public:
  /// What train.resume_from leads to; empty: it is not set, or `latest` and there is none yet.
  /// Throws ConfigError if it leads nowhere, or to what the experiment cannot go on from: another
  /// model or optimizer, or parameters that were frozen.
  static std::optional<Resumption> find(const Experiment& experiment);
  /// The folder of it, nothing of which is read; empty: there is none. Throws as find() does if
  /// train.resume_from leads nowhere.
  static std::filesystem::path folder_of(const Experiment& experiment);

  /// Throws ConfigError if the run that it leads to has done all steps.
  static void check_unfinished(const Experiment& experiment);

  const std::filesystem::path& folder() const { return folder_; }
  const CheckpointState& state() const { return state_; }

  /// For Trainer: the step, and what writes the model's parameters. Outlived by this object.
  Beginning beginning();
  /// Once the trainer is there: reads moments and what plugins carry, compares all with their
  /// hashes, and the parameters that this rank owns with the file ("resumed"). All ranks call it.
  /// Throws Error if a file is damaged, or if what the strategy carries is of other ranks.
  Check read(const Experiment& experiment, Trainer& trainer, ProcessGroup& group);

 private:
  Resumption(std::filesystem::path folder, CheckpointState state)
      : folder_(std::move(folder)), state_(std::move(state)) {}
  void check_fits(const Experiment& experiment) const;
  void check_moments(const ModelConfig& model) const;
  void check_files(ProcessGroup& group) const;
  void check_ranks(const Experiment& experiment, DataParallel& data_parallel) const;
  void read_moments(DataParallel& data_parallel) const;
  void read_own(const Experiment& experiment, DataParallel& data_parallel, int rank) const;
  /// What the experiment says otherwise than the run that saved, where it changes what is trained.
  std::string changes(const Experiment& experiment) const;
  /// Elements that differ from the file's.
  std::int64_t differing_parameters(DataParallel& data_parallel) const;

  std::filesystem::path folder_;
  CheckpointState state_;
  std::int64_t read_ns_ = 0;  ///< how long this rank has read
};

}  // namespace ddprun
