// What a rank is told of its run besides the experiment.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "ddprun/comm/rendezvous.h"

namespace ddprun {

/// How far a run is.
struct Progress {
  std::int64_t step = 0;   ///< steps done, warm-up included
  std::int64_t steps = 0;  ///< in all
  double loss = 0;
  double step_ms = 0;
};

/// One rank's part in one run.
struct RunContext {
  RankInfo info;
  /// Keeps the keys of runs that share a store apart.
  std::string run_id;
  /// When the user's command started, in now_ns().
  std::int64_t launch_ns = 0;
  /// Where rank 0 writes the files that `profile:` asks for.
  std::filesystem::path folder = {};
  /// Called on the training thread after each step; may be empty.
  std::function<void(const Progress&)> on_progress = {};
};

}  // namespace ddprun
