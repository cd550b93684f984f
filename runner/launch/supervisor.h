// Starts the ranks of one experiment on this host and watches them until the last one is gone.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "ddprun/config/world_config.h"
#include "runner/launch/rank_process.h"

namespace ddprun {

struct Outcome {
  enum class Status { ok, failed, out_of_memory, interrupted };
  Status status = Status::ok;
  std::string reason;         ///< why not ok: "rank 1 failed: killed by signal 9 (Killed)"
  int signal = 0;             ///< interrupted: the signal that this process got
  nlohmann::json result;      ///< what rank 0's body returned, if all ranks were done
  bool next_can_run = false;  ///< a launch that was joined: not ok, yet all ranks can go on
};

/// Hears what happens meanwhile. Called on the parent's only thread.
struct RankObserver {
  std::function<void(const Progress&)> on_progress;
  std::function<void(int rank, const std::string& level, const std::string& text)> on_log;
};

/// Forks `world_size` ranks, each running `body`, and waits for them. The calling process must be
/// single-threaded and must not have run a tensor operation, because a child of a process with a
/// thread pool hangs in it.
///
/// A signal that this process gets ends the run: the ranks get SIGTERM, and SIGKILL `end_grace_s`
/// seconds later, or at once with a second signal. SIGUSR1 goes on to the ranks.
///
/// The first rank that fails ends the run: the others get SIGTERM, and SIGKILL two seconds later. A
/// rank that fails only because a peer is gone or late (CommError) is not blamed at once. It waits
/// half a second for the peer's own failure to show. Then the run's reason names the rank that the
/// others waited for, if it can be told. On return no rank is left, whatever happened. If this
/// process is killed, the kernel kills the ranks.
///
/// Ranks wait for one another for world.comm.timeout_s seconds at most. The run ends within a few
/// seconds more if a rank is stopped, or waits longer than that. A rank's own work is limited by
/// world.progress_timeout_s (ProgressWatch).
Outcome run_ranks(const WorldConfig& world, const RankBody& body, SignalWatch& signals,
                  const RankObserver& observer, double end_grace_s = 2);

}  // namespace ddprun
