// What an experiment that trains has of its own: model, data, optimizer, how much it trains, how
// its steps reach the device, and what is recorded besides the times.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddprun/config/experiment.h"
#include "ddprun/data/data_config.h"
#include "ddprun/device/device_choice.h"
#include "ddprun/model/model_config.h"
#include "ddprun/optim/optimizer_config.h"
#include "ddprun/optim/step_extent.h"

namespace ddprun {

/// `train.eval:`
struct EvalConfig {
  std::int64_t every = 0;              ///< steps; 0: never
  std::int64_t batches = 8;            ///< global batches, the same each time
  std::vector<std::string> path = {};  ///< held-out data, of the source that `data:` names
};

/// `train.sample:`
struct SampleConfig {
  std::int64_t every = 0;  ///< steps; 0: never
  std::string prompt = "The ";
  std::int64_t tokens = 200;
  double temperature = 0.8;
};

/// `train.checkpoint:`
struct CheckpointConfig {
  std::int64_t every = 0;       ///< steps; 0: not by steps
  double minutes = 0;           ///< 0: not by the clock
  bool on_signal = false;       ///< SIGUSR1 saves, SIGTERM saves and ends
  std::int64_t keep = 2;        ///< the latest ones; 0: all
  std::int64_t keep_every = 0;  ///< those of every so many steps stay; 0: none
  bool async = false;           ///< written while training goes on
  std::string path = {};        ///< the folder

  bool saves() const { return every > 0 || minutes > 0 || on_signal; }
};

/// `train:`. Exactly one of global_batch and batch_per_rank is given in YAML.
struct TrainConfig {
  /// Sequences per optimizer step over all ranks; 0: batch_per_rank * ranks.
  std::int64_t global_batch = 0;
  std::int64_t batch_per_rank = 0;  ///< 0: global_batch / ranks
  std::int64_t accumulate = 1;      ///< micro-batches per optimizer step
  std::int64_t warmup_steps = 5;    ///< run and recorded, but outside the statistics
  std::int64_t steps = 10;          ///< measured
  std::int64_t seed = 0;
  /// Of the checks' moments and numbers; without it: drawn at the start, unknown to plugins.
  std::optional<std::int64_t> proof_seed = {};
  StepExtent measure = StepExtent::step;  ///< how far each step goes
  EvalConfig eval;
  SampleConfig sample;
  CheckpointConfig checkpoint;
  /// Where the run goes on from: a checkpoint, a folder of them, or "latest", which is that of
  /// checkpoint.path if there is one. Empty: it begins at step 0.
  std::string resume_from = {};

  std::int64_t all_steps() const { return warmup_steps + steps; }
};

/// The steps that one process of a run makes: [first, end). Those before `measured` warm it up.
struct StepSpan {
  std::int64_t first = 0, measured = 0, end = 0;
  std::int64_t count() const { return end - first; }
};
/// Of a run that goes on at step `first`. It warms up again, but at least one step is measured.
StepSpan steps_from(std::int64_t first, const TrainConfig& train);

/// `execution:`
struct ExecutionConfig {
  ExecutionMode mode = ExecutionMode::eager;
  /// How many steps of a run with cuda_graph are eager, so that what is allocated, chosen and
  /// connected at first use is there before a step is captured. The next step is captured; it is a
  /// warm-up step too.
  static constexpr std::int64_t kEagerSteps = 2;
};

/// `profile:`
struct ProfileConfig {
  std::int64_t steps = 1;        ///< the last measured ones, of which the timeline is
  bool memory = false;           ///< of rank 0's CPU, in the last warm-up step
  bool operators = false;        ///< that rank 0 calls on the CPU, in the last warm-up step
  bool memory_snapshot = false;  ///< of rank 0's GPU, from set-up to the last warm-up step
};

void declare_options(Options& options, TrainConfig& config);
void declare_options(Options& options, ExecutionConfig& config);
void declare_options(Options& options, ProfileConfig& config);

struct TrainingConfig {
  ModelConfig model;
  DataConfig data;
  OptimizerConfig optimizer;
  TrainConfig train;
  ExecutionConfig execution;
  ProfileConfig profile;

  DataConfig eval_data() const;  ///< what train.eval reads
};

/// Of an experiment that trains.
inline const TrainingConfig& training(const Experiment& e) { return e.as<TrainingConfig>(); }
inline TrainingConfig& training(Experiment& e) { return e.as<TrainingConfig>(); }
std::int64_t batch_per_rank(const Experiment& experiment);  ///< sequences of one rank per step
std::int64_t micro_batch(const Experiment& experiment);     ///< sequences of one forward
std::int64_t global_batch(const Experiment& experiment);
/// A rank among those that share the global batch.
struct RankOf {
  std::int64_t rank = 0, ranks = 1;
};
/// Of each of so many ranks per step.
std::int64_t micro_batches(const Experiment& experiment, std::int64_t ranks);
/// The sample of the global batch with which a micro-batch of the rank begins.
std::int64_t first_sample(const Experiment& experiment, RankOf rank, std::int64_t micro_batch);

/// The keys of Experiment::contents.
inline constexpr const char* kDataPath = "data.path";
inline constexpr const char* kEvalPath = "train.eval.path";
inline constexpr const char* kInitFrom = "model.init_from";
inline constexpr const char* kResumeFrom = "train.resume_from";
/// As train.resume_from: the latest of train.checkpoint.path.
inline constexpr const char* kLatest = "latest";
/// The hash of that content when the run was planned; 0: random, or it was never opened.
std::uint64_t planned_hash(const Experiment& experiment, const char* key);

/// Throws ConfigError if what is saved, and what the run goes on from, contradicts the rest.
void check_checkpoints(const Experiment& experiment, const TrainingConfig& config);

}  // namespace ddprun
