// The checks by which each run proves itself: exact gradients, equal parameters, the planned
// collectives.
#pragma once

#include <cstdint>
#include <vector>

#include "ddprun/result/check.h"
#include "ddprun/train/data_parallel.h"

namespace ddprun {

/// XXH3 of the parameters' bytes. Equal parameters hash equal on all machines of one byte order.
std::uint64_t hash_parameters(const FlatBuffers& buffers);

/// Fills every gradient with small integers that differ by rank, through a real backward with the
/// strategy's hooks, and compares the result with the exact mean. The integers are multiples of the
/// rank count, and their sums are exact in float32 and bfloat16. So any order of reduction must
/// give the mean without rounding. It needs the memory of the largest parameter, not of the model.
/// It leaves the gradients unset and the parameters untouched. All ranks must call it.
Check check_integer_gradients(DataParallel& data_parallel, ProcessGroup& group);

/// Compares hash_parameters() over all ranks. `name` is that of the check:
/// "initial_parameters_equal" or "parameters_equal".
Check check_parameters_equal(DataParallel& data_parallel, ProcessGroup& group,
                             const std::string& name);

/// Compares one step's collectives (kind and payload, in any order) with the strategy's plan.
/// Returns the difference in words, or an empty text.
std::string compare_with_plan(const std::vector<CollectiveRecord>& records,
                              const std::vector<PlannedCollective>& planned);

}  // namespace ddprun
