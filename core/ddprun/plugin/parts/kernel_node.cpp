// What a node of kernels saves and refuses.
#include "ddprun/plugin/parts/kernel_node.h"

#include <c10/core/GradMode.h>

#include <optional>

#include "ddprun/base/error.h"

namespace ddprun {

using torch::autograd::variable_list;

variable_list KernelNode::apply(variable_list&& gradients) {
  if (c10::GradMode::is_enabled()) {
    throw Error({.what = "this layer has no second derivatives",
                 .where = name(),
                 .got = "backward with create_graph",
                 .expected = "backward without it",
                 .hint = alternative()});
  }
  if (spent_) {
    throw Error({.what = "a second backward over one graph: what its first needed is gone",
                 .where = name(),
                 .got = "a graph that has been used",
                 .expected = backward_overwrites() ? "one backward for each forward"
                                                   : "the first one with retain_graph",
                 .hint = alternative()});
  }
  spent_ = backward_overwrites();
  std::optional<KernelGuard> guard;
  if (below_autograd()) guard.emplace();
  return backward(std::move(gradients));
}

void KernelNode::save(at::TensorList tensors, at::TensorList outputs) {
  for (const at::Tensor& tensor : tensors) saved_.emplace_back(tensor, /*is_output=*/false);
  for (const at::Tensor& output : outputs) saved_.emplace_back(output, /*is_output=*/true);
}

void KernelNode::unpack(std::span<at::Tensor> tensors) {
  TORCH_INTERNAL_ASSERT(tensors.size() == saved_.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i] = saved_[i].unpack(getptr());
  if (backward_overwrites()) saved_.clear();
}

void KernelNode::release_variables() {
  spent_ = true;
  saved_.clear();
  forget();
}

}  // namespace ddprun
