// What a backend cannot do, known before any rank starts.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "ddprun/comm/group/collective.h"
#include "ddprun/comm/group/comm_config.h"

namespace ddprun {

/// Whether a collective computes, by a ReduceOp.
bool reduces(CollectiveKind collective);

/// What the backend lacks for this collective on tensors of this type: "no avg of int32"; empty:
/// nothing. `op` counts only where the collective reduces. Nothing is known of `automatic`.
std::string backend_lacks(BackendKind backend, CollectiveKind collective, at::ScalarType type,
                          ReduceOp op);

}  // namespace ddprun
