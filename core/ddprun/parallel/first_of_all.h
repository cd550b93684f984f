// What one rank finds, or each of them, known to all.
#pragma once

#include <string>
#include <vector>

#include "ddprun/comm/group/process_group.h"

namespace ddprun {

/// The first text of the ranks that is not empty, after its rank; empty: all are. All ranks call
/// it.
std::string first_of_all(ProcessGroup& group, const std::string& own);

/// The number of each rank, in rank order, to the last bit. All ranks call it.
std::vector<double> of_all_ranks(ProcessGroup& group, double own);

}  // namespace ddprun
