// What a rank is told of its run besides the experiment.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "ddprun/comm/launch/rendezvous.h"

namespace ddprun {

struct Progress {
  std::int64_t step = 0;     ///< steps done, warm-up included
  std::int64_t steps = 0;    ///< in all; at most, if a time may end the run earlier
  std::string figures = {};  ///< of the last step: "loss 5.412, 31.2 ms/step"
};

/// Where rank 0 writes while it runs, folders that need not be there yet; empty: it writes none.
struct RunFolders {
  std::filesystem::path profile = {};  ///< what `profile:` asks for
  std::filesystem::path live = {};     ///< what `output:` asks for; named by the run's number
};

struct RunContext {
  RankInfo info;
  /// Keeps the keys of runs that share a store apart.
  std::string run_id;
  /// When the user's command started, in now_ns().
  std::int64_t launch_ns = 0;
  RunFolders folders = {};
  /// Called on the rank's own thread after each step; may be empty.
  std::function<void(const Progress&)> on_progress = {};
};

/// One experiment's part in a comparison in lockstep (`ddprun diff`).
struct LockstepPart {
  std::filesystem::path folder;  ///< where the records of the steps are
  bool leads = true;             ///< it writes them; else it reads them
  std::int64_t steps = 0;        ///< from step 0 on; 0: as many as the experiment has
};

}  // namespace ddprun
