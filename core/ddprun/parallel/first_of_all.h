// A finding of one rank, known to all.
#pragma once

#include <string>

#include "ddprun/comm/group/process_group.h"

namespace ddprun {

/// The first text of the ranks that is not empty, after its rank; empty: all are. All ranks call
/// it.
std::string first_of_all(ProcessGroup& group, const std::string& own);

}  // namespace ddprun
