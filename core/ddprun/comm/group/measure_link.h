// How long collectives take between these ranks while nothing else runs.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ddprun/comm/group/link_waits.h"
#include "ddprun/comm/group/process_group.h"
#include "ddprun/measure/statistics.h"

namespace ddprun {

/// Calls each kind of collective that `records` have, at four sizes up to the largest of them (at
/// most 4 MiB), a few times: some 20 ms. Where a call takes long, each size is called once. A size
/// counts with its fastest call on any rank, in float32, in memory of the backend's own. All ranks
/// call it, and get the same; it blocks, and its collectives are recorded. Barriers, and a kind
/// whose times are on no rising line, are left out. Throws CommError.
LinkCosts measure_link(ProcessGroup& group, const std::vector<CollectiveRecord>& records);

/// A line through the fastest call of each size in `bytes`, in microseconds, of as many as four
/// measurements: it is measured again while the line does not rise. Nothing if it never does.
std::optional<LineFit> rising_line(const std::vector<double>& bytes,
                                   const std::function<std::vector<float>()>& fastest_of_sizes);

}  // namespace ddprun
