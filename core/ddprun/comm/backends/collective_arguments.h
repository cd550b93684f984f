// Checks and unpacks c10d's arguments for the backends of our own, which work on the CPU's memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "ddprun/comm/group/collective.h"
#include "ddprun/comm/group/comm_config.h"

namespace ddprun {

std::byte* data_of(const at::Tensor& tensor);
std::int64_t bytes_of(const at::Tensor& tensor);

/// The functions below throw c10::Error, in words, if a backend cannot take the argument.
void check_tensor(const at::Tensor& tensor);
/// The one tensor of the list. c10d takes lists because a process once had several devices.
const at::Tensor& only(const std::vector<at::Tensor>& tensors);
/// The list of `ranks` outputs that `input` is gathered into.
const std::vector<at::Tensor>& checked_outputs(const std::vector<std::vector<at::Tensor>>& outputs,
                                               const at::Tensor& input, int ranks);
void check_all_gather(const at::Tensor& output, const at::Tensor& input, int ranks);
void check_reduce_scatter(const at::Tensor& output, const at::Tensor& input, int ranks);
/// What that backend can do with elements of this type.
ReduceOp checked_op(const c10d::ReduceOp& op, at::ScalarType type, BackendKind backend);
int checked_root(std::int64_t root, int ranks);

}  // namespace ddprun
