// What the nodes of the fused layers have in common.
#pragma once

#include "ddprun/plugin/kernel_node.h"

namespace ddprun::fused {

/// The backward of a fused layer. It returns gradients of the tensors that flow through the layer;
/// those of the parameters it has already written, and returns undefined ones for them, so that the
/// parameters' own nodes, and the hooks there, still run. A model has layers that work in place, so
/// none of its layers runs backward twice.
class FusedNode : public KernelNode {
  bool backward_overwrites() const final { return true; }
  std::string alternative() const final { return "set `kernels: reference` under `model:`"; }
};

}  // namespace ddprun::fused
