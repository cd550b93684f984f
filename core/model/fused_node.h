// What the fused layers share of autograd: a node with a backward of its own.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>

#include "ddprun/plugin/error.h"

namespace ddprun::fused {

/// Below autograd and autocast: operators compute what they are given, in its dtype.
class KernelGuard {
  at::AutoDispatchBelowADInplaceOrView below_autograd_;
  c10::impl::ExcludeDispatchKeyGuard below_autocast_{c10::autocast_dispatch_keyset};
};

/// The backward of a fused layer. It returns gradients of the tensors that flow through the layer;
/// those of the parameters it has already written, and returns undefined ones for them, so that the
/// parameters' own nodes, and the hooks there, still run.
class FusedNode : public torch::autograd::Node {
 public:
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    if (c10::GradMode::is_enabled()) {
      throw Error({.what = "the fused kernels have no second derivatives",
                   .where = name(),
                   .got = "backward with create_graph",
                   .expected = "",
                   .hint = "set `kernels: reference` under `model:`"});
    }
    const KernelGuard guard;
    return backward(std::move(gradients));
  }

 private:
  virtual torch::autograd::variable_list backward(torch::autograd::variable_list&& gradients) = 0;
};

/// A node of type Layer whose edges lead to `inputs`; null where no gradient is wanted.
template <typename Layer, typename... Inputs>
std::shared_ptr<Layer> make_node(const Inputs&... inputs) {
  if (!torch::autograd::compute_requires_grad(inputs...)) return nullptr;
  std::shared_ptr<Layer> node(new Layer, torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs...));
  return node;
}

}  // namespace ddprun::fused
