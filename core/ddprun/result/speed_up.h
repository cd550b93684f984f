// How a run's time compares with that of its base.
#pragma once

#include <vector>

#include "ddprun/result/row_runs.h"

namespace ddprun {

/// The kind's first quantity of the base's row (Run::baseline) / that of the row of this run, each
/// the mean over its runs. No value: it has no base, or the base was not timed.
Figure speed_up(const RunStatistics& run, const std::vector<const RunStatistics*>& runs);

/// Its reverse, less 1: 0.019 is 1.9 % more time than the base's.
Figure time_difference(const RunStatistics& run, const std::vector<const RunStatistics*>& runs);

/// speed_up() as the quantity of a kind that measures the time of a call.
Quantity speed_up_of_calls();

/// How many calls were measured, of such a kind. `time`: of a call.
Quantity number_of_calls(const Quantity& time, int drop_order);

}  // namespace ddprun
