// An autograd node for layers that have kernels of their own instead of ATen's operators.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <array>
#include <span>
#include <string>
#include <vector>

#include "ddprun/base/torch_versions.h"

namespace ddprun {

/// Switches autograd and autocast off: operators compute what they are given, in its dtype.
class KernelGuard {
  at::AutoDispatchBelowADInplaceOrView below_autograd_;
  c10::impl::ExcludeDispatchKeyGuard below_autocast_{c10::autocast_dispatch_keyset};
};

/// Base of such a layer's backward. It has no second derivatives. What forward saved serves one
/// backward; it serves more if the caller retains the graph and backward does not overwrite it.
/// Anything else throws Error. A node is used by one thread at a time.
class KernelNode : public torch::autograd::Node {
 public:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) final;
  void release_variables() final;

  /// Saves the tensors that backward needs as autograd's own layers do: saved-tensor hooks may pack
  /// them, and backward throws if one was written to meanwhile. `outputs` are outputs of the layer;
  /// set_history() comes first, and they keep no reference to this node. Called once, by forward.
  void save(at::TensorList tensors, at::TensorList outputs = {});

 protected:
  /// What save() took, unpacked: the tensors, then the outputs. If backward overwrites it, the node
  /// lets go of it.
  template <std::size_t count>
  std::array<at::Tensor, count> saved() {
    std::array<at::Tensor, count> tensors;
    unpack(tensors);
    return tensors;
  }

 private:
  /// Returns the gradients of the inputs in make_node()'s order, undefined where there is none.
  /// Called under a KernelGuard if below_autograd().
  virtual torch::autograd::variable_list backward(torch::autograd::variable_list&& gradients) = 0;
  /// Forgets what forward left in the node beside what it saved.
  virtual void forget() {}
  /// Whether backward() writes into what forward saved, so that it cannot run twice.
  virtual bool backward_overwrites() const = 0;
  /// Whether a KernelGuard is held around backward(). A layer that computes by differentiable
  /// operators there goes without.
  virtual bool below_autograd() const { return true; }
  /// What error messages recommend to compute the same by ATen's operators: "take ...".
  virtual std::string alternative() const = 0;

  void unpack(std::span<at::Tensor> tensors);

  std::vector<torch::autograd::SavedVariable> saved_;
  bool spent_ = false;
};

/// Makes a node of type Layer whose edges lead to `inputs`. Returns null if no gradient is wanted.
template <typename Layer, typename... Inputs>
NodePointer<Layer> make_node(const Inputs&... inputs) {
  if (!torch::autograd::compute_requires_grad(inputs...)) return {};
  NodePointer<Layer> node = new_node<Layer>();
  node->set_next_edges(torch::autograd::collect_next_edges(inputs...));
  return node;
}

}  // namespace ddprun
