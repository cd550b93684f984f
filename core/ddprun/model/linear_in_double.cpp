// Forward and backward by ATen's operators.
#include "ddprun/model/linear_in_double.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>

#include <string>

#include "ddprun/plugin/parts/kernel_node.h"

namespace ddprun {

namespace {

using torch::autograd::variable_list;

struct LinearInDoubleBackward final : KernelNode {
  std::string name() const override { return "LinearInDoubleBackward"; }
  variable_list backward(variable_list&& gradients) override {
    const auto [x, weight] = saved<2>();
    const at::Tensor& dy = gradients[0];
    const at::Tensor dx =
        should_compute_output(0) ? at::matmul(dy, weight.to(at::kDouble)) : at::Tensor();
    if (!should_compute_output(1)) return {dx, {}};
    const at::Tensor dw = at::mm(dy.flatten(0, -2).t(), x.flatten(0, -2));
    return {dx, dw.to(weight.scalar_type())};
  }
  bool backward_overwrites() const override { return false; }
  std::string alternative() const override { return "take PyTorch's linear"; }
};

}  // namespace

at::Tensor linear_in_double(const at::Tensor& x, const at::Tensor& weight) {
  const auto node = make_node<LinearInDoubleBackward>(x, weight);
  at::Tensor y;
  {
    const KernelGuard guard;
    y = at::linear(x, weight.to(at::kDouble));
  }
  if (!node) return y;
  torch::autograd::set_history(y, node);
  node->save({x, weight});
  return y;
}

}  // namespace ddprun
