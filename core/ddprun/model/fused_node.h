// The common base of the fused layers' autograd nodes.
#pragma once

#include "ddprun/plugin/kernel_node.h"

namespace ddprun::fused {

/// The backward of a fused layer. It returns the gradients of the tensors that flow through the
/// layer. It writes the gradients of the parameters itself and returns undefined tensors for them,
/// so that the parameters' own nodes and the hooks there still run. Some layers work in place, so
/// no layer of a model can run backward twice.
class FusedNode : public KernelNode {
  bool backward_overwrites() const final { return true; }
  std::string alternative() const final { return "set `kernels: reference` under `model:`"; }
};

}  // namespace ddprun::fused
