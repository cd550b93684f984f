// An autograd node whose backward is one call of kernels, for layers that are not made of ATen's
// operators.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>
#include <string>

namespace ddprun {

/// Below autograd and autocast: operators compute what they are given, in its dtype.
class KernelGuard {
  at::AutoDispatchBelowADInplaceOrView below_autograd_;
  c10::impl::ExcludeDispatchKeyGuard below_autocast_{c10::autocast_dispatch_keyset};
};

/// What the backward of such a layer is derived from. It has no second derivatives, and what it
/// saved is there for one backward, unless the caller retains the graph and backward leaves it as
/// it is: whatever else is asked for throws Error. Nodes belong to one thread at a time.
class KernelNode : public torch::autograd::Node {
 public:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) final;
  void release_variables() final;

 private:
  /// Gradients of the inputs, in make_node()'s order; undefined where there is none. Under a
  /// KernelGuard.
  virtual torch::autograd::variable_list backward(torch::autograd::variable_list&& gradients) = 0;
  /// Forgets what forward saved.
  virtual void forget() = 0;
  /// Whether backward() writes into what forward saved, so that it cannot run twice.
  virtual bool backward_overwrites() const = 0;
  /// What computes the same by ATen's operators: "take ...".
  virtual std::string alternative() const = 0;

  bool spent_ = false;
};

/// A node of type Layer whose edges lead to `inputs`; null where no gradient is wanted.
template <typename Layer, typename... Inputs>
std::shared_ptr<Layer> make_node(const Inputs&... inputs) {
  if (!torch::autograd::compute_requires_grad(inputs...)) return nullptr;
  std::shared_ptr<Layer> node(new Layer, torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs...));
  return node;
}

}  // namespace ddprun
