// One rank of one experiment, from connecting to its result: build, prove, warm up, measure, prove.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <vector>

#include "ddprun/comm/rendezvous.h"
#include "ddprun/config/experiment.h"
#include "ddprun/config/registry.h"
#include "ddprun/result/rank_result.h"

namespace ddprun {

/// Called on the training thread after each step.
struct Progress {
  std::int64_t step = 0;   ///< steps done, warm-up included
  std::int64_t steps = 0;  ///< in all
  double loss = 0;
  double step_ms = 0;
};

/// Runs the experiment as this rank in this process. Returns the results of all ranks, in rank
/// order, on every rank. `launch_ns`: when the user's command started (now_ns()). `folder`: where
/// rank 0 writes the files that `profile:` asks for. Throws ddprun::Error.
std::vector<RankResult> run_rank(const Experiment& experiment, const PluginRegistry& registry,
                                 const RankInfo& info, const std::string& run_id,
                                 std::int64_t launch_ns, const std::filesystem::path& folder,
                                 const std::function<void(const Progress&)>& on_progress);

/// One parameter's row of `ddprun verify`: the data-parallel run against one process on the same
/// global batch.
struct Difference {
  std::string name = {};
  double gradient_max = 0, gradient_mean = 0;    ///< absolute, after the first step's backward
  double parameter_max = 0, parameter_mean = 0;  ///< absolute, after all steps
};

/// Trains all steps as run_rank does, and again in rank 0's process alone without any strategy, on
/// as many threads. Rank 0 returns the differences in the order of the forward pass, the others
/// nothing.
std::vector<Difference> verify_rank(const Experiment& experiment, const PluginRegistry& registry,
                                    const RankInfo& info, const std::string& run_id);

}  // namespace ddprun
