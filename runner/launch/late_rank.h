// Finds the rank that the others waited for in vain, from what each rank is doing.
#pragma once

#include <optional>
#include <vector>

#include "ddprun/comm/store/launch_board.h"
#include "runner/launch/rank_process.h"

namespace ddprun {

/// A rank as its parent sees it.
struct WatchedRank {
  RankStatus status;
  int stopped_by = 0;   ///< the signal, while the rank is stopped
  bool failed = false;  ///< it has said that its own wait failed
};

/// Whose fault a wait is that lasted too long, and why: a rank that is stopped; else one that does
/// its own work, while others are at a later call. Nothing if all are where the others are: then
/// the network is at fault.
std::optional<RankFailure> find_late_rank(const std::vector<WatchedRank>& ranks, double timeout_s);

}  // namespace ddprun
