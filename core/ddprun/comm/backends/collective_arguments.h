// Checks the arguments of collectives for the backends of our own, which work on the CPU's memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

#include "ddprun/comm/group/collective_backend.h"
#include "ddprun/comm/group/comm_config.h"

namespace ddprun {

std::byte* data_of(const at::Tensor& tensor);
std::int64_t bytes_of(const at::Tensor& tensor);

/// Throws c10::Error, in words, if that backend of `ranks` ranks cannot take the arguments. Returns
/// what it is to reduce by.
ReduceOp checked_op(const CollectiveArguments& arguments, BackendKind backend, int ranks);

/// Where an all-gather puts each rank's input.
std::vector<std::byte*> gathered_places(const CollectiveArguments& arguments, int ranks);

}  // namespace ddprun
