// The ranks of a joined launch whose run failed: no parent watches them, so they tell each other.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/launch/supervisor.h"

namespace ddprun {

struct FailureReport {
  FailureKind kind = FailureKind::other;
  std::string reason;
  RankCalls recent;
};

/// The failure of this process's rank, which is attached to `board`.
FailureReport failure_of(const RankInfo& info, const RankError& error, const LaunchBoard& board);

/// The first call that two ranks did not make alike, as the reason of the failure; nothing if there
/// is none, or if a rank failed for a reason of its own. `failures`: of each rank.
std::optional<std::string> different_calls(const std::vector<FailureReport>& failures);

/// All ranks of a run that failed come here, each with its own failure, and leave with one reason
/// if there is one: where memory ran out on one rank, or where the ranks called different
/// collectives. The next run can run if memory ran out, and the others say nothing but that a peer
/// was gone. A rank that does not come within `limit_s` is named: it is dead or stopped, or its run
/// ended well, and the launch cannot go on.
Outcome agree_on_failure(const RankInfo& info, const std::string& run_id, double limit_s,
                         const FailureReport& own);

}  // namespace ddprun
