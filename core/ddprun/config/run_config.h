// The YAML sections `train:`, `execution:` and `profile:`: how much a run trains, how its steps
// reach the device, and what is recorded besides the times.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ddprun/device/device_choice.h"
#include "ddprun/optim/step_extent.h"

namespace ddprun {

class Options;

/// `train.eval:`
struct EvalConfig {
  std::int64_t every = 0;              ///< steps; 0: never
  std::int64_t batches = 8;            ///< global batches, the same each time
  std::vector<std::string> path = {};  ///< held-out data, of the source that `data:` names
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
  StepExtent measure = StepExtent::step;  ///< how far each step goes
  EvalConfig eval;
};

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
  bool memory_snapshot = false;  ///< of rank 0's GPU, from set-up to the last warm-up step
};

void declare_options(Options& options, TrainConfig& config);
void declare_options(Options& options, ExecutionConfig& config);
void declare_options(Options& options, ProfileConfig& config);

}  // namespace ddprun
