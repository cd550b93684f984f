// Starts the ranks of a run again when they failed.
#pragma once

#include <cstdint>
#include <functional>

#include "runner/launch/execute.h"
#include "runner/launch/plan.h"
#include "runner/launch/progress.h"
#include "runner/report/row.h"

namespace ddprun {

/// Calls `start`, and again, `most` times at most, if a rank failed. From the second time on the
/// run goes on from what an earlier start saved. Memory that ran out would run out again. In a
/// launch that was joined nothing is started again: whoever started the ranks does.
Outcome run_with_restarts(Executor& executor, ProgressDisplay& display, const PlannedRun& planned,
                          const std::function<Outcome(const PlannedRun& planned)>& start,
                          std::int64_t most, Restarts& restarts);

}  // namespace ddprun
