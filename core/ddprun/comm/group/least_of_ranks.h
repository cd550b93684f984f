// The least of the ranks' values, one by one.
#pragma once

#include <vector>

#include "ddprun/comm/group/process_group.h"

namespace ddprun {

/// All ranks call it, for as many values; it blocks. The all-reduce is recorded. Throws CommError.
std::vector<float> least_of_ranks(std::vector<float> values, ProcessGroup& group);

}  // namespace ddprun
