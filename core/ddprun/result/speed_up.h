// How much faster a run is than the one that it is compared with.
#pragma once

#include <vector>

#include "ddprun/result/run_statistics.h"

namespace ddprun {

/// Median of the kind's first quantity in the run's base (Run::baseline) / that of this run. No
/// value: it has no base, or the base was not timed.
Figure speed_up(const RunStatistics& run, const std::vector<const RunStatistics*>& runs);

}  // namespace ddprun
