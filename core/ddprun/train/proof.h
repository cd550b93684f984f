// The checks that each run makes of itself: right gradients, equal parameters, the planned
// collectives.
#pragma once

#include <cstdint>
#include <vector>

#include "ddprun/train/data_parallel.h"
#include "ddprun/train/rank_result.h"

namespace ddprun {

/// XXH3 of the parameters' bytes. Equal parameters hash equal on all machines of one byte order.
std::uint64_t hash_parameters(const FlatBuffers& buffers);

/// Fills every gradient with small integers that differ by rank, through a real backward with the
/// strategy's hooks, and compares the result with the exact mean. The integers are multiples of the
/// rank count and their sums are exact in float32 and bfloat16, so any reduction order must give
/// the mean without rounding. Takes the memory of the largest parameter, not of the model. Leaves
/// the gradients unset and the parameters untouched. Call on all ranks.
Check check_integer_gradients(DataParallel& data_parallel, ProcessGroup& group);

/// Compares hash_parameters over all ranks. `name` of the check: "initial_parameters_equal" or
/// "parameters_equal".
Check check_parameters_equal(DataParallel& data_parallel, ProcessGroup& group,
                             const std::string& name);

/// Compares one step's collectives (kind and payload, in any order) with the strategy's plan. Empty
/// if equal, else the difference in words.
std::string compare_with_plan(const std::vector<CollectiveRecord>& records,
                              const std::vector<PlannedCollective>& planned);

}  // namespace ddprun
