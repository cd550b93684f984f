// What a node of kernels refuses.
#include "ddprun/plugin/kernel_node.h"

#include <c10/core/GradMode.h>

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
  const KernelGuard guard;
  return backward(std::move(gradients));
}

void KernelNode::release_variables() {
  spent_ = true;
  forget();
}

}  // namespace ddprun
