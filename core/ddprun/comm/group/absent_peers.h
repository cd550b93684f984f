// A process group of one rank whose peers are not there: what a step would send, without sending.
#pragma once

#include <memory>

#include "ddprun/comm/group/process_group.h"

namespace ddprun {

/// Rank `rank` of `size`, `ranks_per_host` of them on its host. Every collective is done at once,
/// moves nothing, and is recorded; what ranks tell each other is what this rank says. Subgroups are
/// such groups too. `device`: of the tensors; it outlives the group.
std::unique_ptr<ProcessGroup> group_of_absent_peers(int rank, int size, int ranks_per_host,
                                                    Device& device);

}  // namespace ddprun
