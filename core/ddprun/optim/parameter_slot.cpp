// Gradients of fused layers, built in place in the memory that collectives and the optimizer use.
#include "ddprun/optim/parameter_slot.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace ddprun {

namespace {

std::int64_t rows_of(Slots slots) {
  std::int64_t rows = 0;
  for (const ParameterSlot* slot : slots) rows += slot->parameter.size(0);
  return rows;
}

/// The tensors as one matrix, if each begins in memory where the one before it ends, in one
/// storage: allocators put tensors of storages of their own side by side, too.
template <typename Member>
at::Tensor as_one_matrix(Slots slots, const Member& member) {
  const at::Tensor& first = member(*slots.front());
  const char* next = static_cast<const char*>(first.const_data_ptr());
  for (const ParameterSlot* slot : slots) {
    const at::Tensor& tensor = member(*slot);
    const bool follows = tensor.const_data_ptr() == next && tensor.is_alias_of(first);
    if (!follows || !tensor.is_contiguous()) return {};
    next += tensor.nbytes();
  }
  if (slots.size() == 1) return first;
  return first.as_strided({rows_of(slots), first.size(1)}, {first.size(1), 1});
}

at::Tensor memory_for_gradient(const ParameterSlot& slot) {
  return slot.gradient.defined() ? slot.gradient : at::empty_like(slot.parameter);
}

}  // namespace

at::Tensor stack_weights(Slots slots) {
  const auto compute = [](const ParameterSlot& slot) -> const at::Tensor& { return slot.weight(); };
  if (const at::Tensor whole = as_one_matrix(slots, compute); whole.defined()) return whole;
  std::vector<at::Tensor> parts;
  for (const ParameterSlot* slot : slots) parts.push_back(slot->weight());
  return at::cat(parts);
}

bool gradient_is_free(const ParameterSlot& slot) { return !slot.parameter.grad().defined(); }

void add_gradients(Slots slots, std::int64_t columns, const GradientProduct& product) {
  std::vector<bool> first;  // of each slot: nothing to add to yet
  for (const ParameterSlot* slot : slots) {
    first.push_back(gradient_is_free(*slot));
    if (first.back()) slot->parameter.mutable_grad() = memory_for_gradient(*slot);
  }
  const auto gradient = [](const ParameterSlot& slot) -> const at::Tensor& {
    return slot.parameter.grad();
  };
  if (std::adjacent_find(first.begin(), first.end(), std::not_equal_to<>()) == first.end()) {
    if (at::Tensor whole = as_one_matrix(slots, gradient); whole.defined()) {
      product(/*add=*/!first.front(), whole);
      return;
    }
  }
  at::Tensor sum = at::empty({rows_of(slots), columns}, at::kFloat);
  product(/*add=*/false, sum);
  std::int64_t row = 0;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    at::Tensor& part = slots[i]->parameter.mutable_grad();
    const at::Tensor values = sum.narrow(0, row, part.size(0));
    row += part.size(0);
    if (first[i]) {
      part.copy_(values);
    } else {
      part.add_(values);
    }
  }
}

float* gradient_to_add_to(const ParameterSlot& slot) {
  at::Tensor& gradient = slot.parameter.mutable_grad();
  if (!gradient.defined()) {
    gradient = memory_for_gradient(slot);
    gradient.zero_();
  }
  return gradient.data_ptr<float>();
}

}  // namespace ddprun
