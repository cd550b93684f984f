// The common base of the fused layers' autograd nodes.
#pragma once

#include <ATen/ops/empty.h>

#include <utility>

#include "ddprun/optim/parameter_slot.h"
#include "ddprun/plugin/parts/kernel_node.h"

namespace ddprun::fused {

/// The backward of a fused layer. It returns the gradients of the tensors that flow through the
/// layer. It writes the gradients of the parameters itself and returns undefined tensors for them,
/// so that the parameters' own nodes and the hooks there still run. Some layers work in place, so
/// no layer of a model can run backward twice.
class FusedNode : public KernelNode {
  bool backward_overwrites() const final { return true; }
  std::string alternative() const final { return "set `kernels: reference` under `model:`"; }

 protected:
  /// What backward may overwrite: the tensor itself, or a copy if someone else, such as a
  /// saved-tensor hook, holds its memory.
  static at::Tensor to_overwrite(at::Tensor tensor) {
    const bool ours = tensor.use_count() == 1 && tensor.storage().use_count() == 1;
    return ours ? std::move(tensor) : tensor.clone();
  }
};

/// Uninitialized rows. If there is a `node`, its backward and those that run before it are the last
/// to read them, and the gradient of `last` the last that they write.
template <class Node>
at::Tensor empty_rows(const Node& node, const ParameterSlot& last, at::IntArrayRef sizes,
                      c10::ScalarType dtype) {
  const at::TensorOptions options = last.parameter.options().requires_grad(false).dtype(dtype);
  return node ? empty_until_written(last, sizes, options) : at::empty(sizes, options);
}

}  // namespace ddprun::fused
