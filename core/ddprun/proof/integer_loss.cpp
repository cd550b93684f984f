// Integers as gradients, by a node in autograd for each parameter.
#include "ddprun/proof/integer_loss.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <iterator>
#include <vector>

#include "ddprun/base/torch_versions.h"

namespace ddprun {

namespace {

/// Backward of a term of the loss whose gradient with respect to one parameter is this rank's
/// integers. They are made when autograd asks for them, one parameter after another: the check of a
/// model must not take the memory of another one.
struct IntegersBackward final : torch::autograd::Node {
  IntegersBackward(const FlatBuffers& buffers, const ProofIntegers& integers)
      : buffers(buffers), integers(integers) {}

  const FlatBuffers& buffers;
  const ProofIntegers& integers;
  int index = 0;  // the parameter's
  int rank = 0;
  int micro_batch = 0;

  std::string name() const override { return "IntegersBackward"; }

  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    at::Tensor values = buffers.empty_gradient(index);  // the parameter may be transposed
    const std::int64_t first_element = buffers.range(index).begin;
    float* const data = values.mutable_data_ptr<float>();
    at::parallel_for(0, values.numel(), ProofIntegers::kGrain,
                     [&](std::int64_t begin, std::int64_t end) {
                       integers.write_gradients({first_element + begin, first_element + end}, rank,
                                                micro_batch, data + begin);
                     });
    return {values.to(buffers.parameter(index).options())};
  }
};

/// A scalar whose gradients are the integers of `rank` in `micro_batch`. Autograd runs the nodes
/// made last first, so making the terms from the last parameter to the first lets gradients arrive
/// in buffer order, as in training.
at::Tensor loss_of_unit(const FlatBuffers& buffers, const Unit& unit, const ProofIntegers& integers,
                        int rank, int micro_batch) {
  std::vector<at::Tensor> terms;
  for (int index = unit.last; index >= unit.first; --index) {
    const NodePointer<IntegersBackward> node = new_node<IntegersBackward>(buffers, integers);
    node->index = index;
    node->rank = rank;
    node->micro_batch = micro_batch;
    node->set_next_edges(torch::autograd::collect_next_edges(buffers.parameter(index)));
    terms.push_back(at::zeros({}, buffers.parameter(index).options()));
    torch::autograd::set_history(terms.back(), node);
  }
  return at::stack(terms).sum();
}

}  // namespace

at::Tensor loss_with_integer_gradients(DataParallel& data_parallel, const ProofIntegers& integers,
                                       int rank, int micro_batch) {
  const FlatBuffers& buffers = data_parallel.buffers();
  const std::vector<int>& numbers = data_parallel.roles().units;
  at::Tensor loss;
  for (int unit = 0; unit < std::ssize(numbers); ++unit) {
    const int trained = numbers[unit];  // -1: all frozen
    loss = data_parallel.unit(unit, [&] {
      const at::Tensor own =
          trained < 0
              ? at::zeros({}, buffers.parameter(0).options().requires_grad(false))
              : loss_of_unit(buffers, buffers.units()[trained], integers, rank, micro_batch);
      return loss.defined() ? loss + own : own;
    });
  }
  return loss;
}

}  // namespace ddprun
