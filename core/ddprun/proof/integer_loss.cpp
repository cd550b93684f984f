// Integers as gradients, by a node in autograd for each parameter.
#include "ddprun/proof/integer_loss.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <iterator>
#include <vector>

#include "ddprun/base/counter_hash.h"
#include "ddprun/base/torch_versions.h"
#include "ddprun/proof/drawn_run.h"

namespace ddprun {

namespace {

/// Backward of a term of the loss whose gradient with respect to one parameter is this rank's
/// integers. They are made when autograd asks for them, one parameter after another: the check of a
/// model must not take the memory of another one.
struct IntegersBackward final : torch::autograd::Node {
  IntegersBackward(const FlatBuffers& buffers, const ProofIntegers& integers, std::string& wrong)
      : buffers(buffers), integers(integers), wrong(wrong) {}

  const FlatBuffers& buffers;
  const ProofIntegers& integers;
  std::string& wrong;
  int index = 0;  // the parameter's
  IntegersOf of;
  at::Tensor read_in_forward = {};

  std::string name() const override { return "IntegersBackward"; }

  /// Some of what the model reads now, where it is not whole all the time.
  at::Tensor read_now() const {
    if (buffers.holding().parameters != Placement::sharded) return {};
    const Range all = buffers.range(index);
    const Range run = drawn_run(all, counter_hash(of.draw, static_cast<std::uint64_t>(index)));
    std::vector<at::Tensor> parts;
    for (const at::Tensor& read : buffers.read(index)) {
      parts.push_back(read.narrow(0, run.begin - all.begin, run.size()).to(at::kFloat));
    }
    return at::cat(parts);
  }

  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    if (const at::Tensor now = read_now(); now.defined() && !at::equal(now, read_in_forward)) {
      wrong = "what the model reads of " + buffers.name(index) +
              " in backward is not what it read in forward";
    }
    at::Tensor values = buffers.empty_gradient(index);  // the parameter may be transposed
    const std::int64_t first_element = buffers.range(index).begin;
    float* const data = values.mutable_data_ptr<float>();
    at::parallel_for(0, values.numel(), ProofIntegers::kGrain,
                     [&](std::int64_t begin, std::int64_t end) {
                       integers.write_gradients({first_element + begin, first_element + end},
                                                of.rank, of.micro_batch, data + begin);
                     });
    return {values.to(buffers.parameter(index).options())};
  }
};

/// A scalar whose gradients are the integers of `rank` in `micro_batch`. Autograd runs the nodes
/// made last first, so making the terms from the last parameter to the first lets gradients arrive
/// in buffer order, as in training.
at::Tensor loss_of_unit(const FlatBuffers& buffers, const Unit& unit, const ProofIntegers& integers,
                        IntegersOf of, std::string& wrong) {
  std::vector<at::Tensor> terms;
  for (int index = unit.last; index >= unit.first; --index) {
    const NodePointer<IntegersBackward> node = new_node<IntegersBackward>(buffers, integers, wrong);
    node->index = index;
    node->of = of;
    node->read_in_forward = node->read_now();
    node->set_next_edges(torch::autograd::collect_next_edges(buffers.parameter(index)));
    terms.push_back(at::zeros({}, buffers.parameter(index).options()));
    torch::autograd::set_history(terms.back(), node);
  }
  return at::stack(terms).sum();
}

}  // namespace

at::Tensor loss_with_integer_gradients(DataParallel& data_parallel, const ProofIntegers& integers,
                                       IntegersOf of, std::string& wrong) {
  const FlatBuffers& buffers = data_parallel.buffers();
  const std::vector<int>& numbers = data_parallel.roles().units;
  at::Tensor loss;
  for (int unit = 0; unit < std::ssize(numbers); ++unit) {
    const int trained = numbers[unit];  // -1: all frozen
    loss = data_parallel.unit(unit, [&] {
      const at::Tensor own =
          trained < 0 ? at::zeros({}, buffers.parameter(0).options().requires_grad(false))
                      : loss_of_unit(buffers, buffers.units()[trained], integers, of, wrong);
      return loss.defined() ? loss + own : own;
    });
  }
  return loss;
}

}  // namespace ddprun
