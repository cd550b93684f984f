// What backends cannot do: asked before any rank starts, and refused at the call.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "ddprun/comm/group/collective.h"
#include "ddprun/comm/group/collective_backend.h"
#include "ddprun/comm/group/comm_config.h"

namespace ddprun {

/// Whether a collective computes, by a ReduceOp.
bool reduces(CollectiveKind collective);

/// What the backend lacks for this collective on tensors of this type: "no avg of int32"; empty:
/// nothing. `op` counts only where the collective reduces. Nothing is known of `automatic`.
std::string backend_lacks(BackendKind backend, CollectiveKind collective, at::ScalarType type,
                          ReduceOp op);

std::byte* data_of(const at::Tensor& tensor);
std::int64_t bytes_of(const at::Tensor& tensor);

/// Throws c10::Error, in words, if that backend of our own, of `ranks` ranks, cannot do this.
/// Returns what it is to reduce by.
ReduceOp checked_op(const CollectiveArguments& arguments, BackendKind backend, int ranks);

}  // namespace ddprun
