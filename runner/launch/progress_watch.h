// Whether ranks still get on: what ends a run whose ranks all hang in their own work, and the rank
// that the others waited for in vain, from what each rank is doing.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ddprun/comm/store/launch_board.h"
#include "runner/launch/rank_process.h"

namespace ddprun {

/// Hears of each rank as long as it does its own work. Its limit rises with the longest silence
/// that ended, so a large model's slow step does not end its run.
class ProgressWatch {
 public:
  /// `limit_s`: world.progress_timeout_s; 0: none.
  ProgressWatch(int ranks, double limit_s);

  /// `status`: the rank's. Returns whether it waits for nobody, and gave no sign for too long.
  bool is_silent(int rank, const RankStatus& status, std::int64_t now_ns);
  /// This process was stopped until now, and its ranks perhaps too.
  void resume(std::int64_t now_ns);
  /// What is said of a silent rank. `statuses`: of all ranks that are watched.
  RankError error(const std::vector<RankStatus>& statuses, std::int64_t now_ns) const;

 private:
  struct Heard {
    std::uint64_t signs = 0;
    std::int64_t since_ns = 0;
    std::int64_t until_ns = 0;  ///< the last look that found it so
    bool works = false;         ///< its own work: it waits for nobody
  };

  std::int64_t limit_ns() const;

  const std::int64_t least_ns_;
  std::int64_t longest_ns_ = 0;  ///< silence that ended
  std::vector<Heard> ranks_;
};

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
