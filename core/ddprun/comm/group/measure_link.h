// How long collectives take between these ranks while nothing else runs.
#pragma once

#include <vector>

#include "ddprun/comm/group/link_waits.h"
#include "ddprun/comm/group/process_group.h"

namespace ddprun {

/// Calls each kind of collective that `records` have, at four sizes up to the largest of them (at
/// most 4 MiB), a few times: some 20 ms. Where a call takes long, each size is called once. A size
/// counts with its fastest call on any rank, in float32, in memory of the backend's own. All ranks
/// call it, and get the same; it blocks, and its collectives are recorded. Barriers, and a kind
/// whose times are on no rising line, are left out. Throws CommError.
LinkCosts measure_link(ProcessGroup& group, const std::vector<CollectiveRecord>& records);

}  // namespace ddprun
