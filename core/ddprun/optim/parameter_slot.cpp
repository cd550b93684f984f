// Gradients of fused layers, built in place in the memory that collectives and the optimizer use.
#include "ddprun/optim/parameter_slot.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "ddprun/base/ranges.h"
#include "ddprun/optim/gradient_scratch.h"

namespace ddprun {

namespace {

std::int64_t rows_of(Slots slots) {
  std::int64_t rows = 0;
  for (const ParameterSlot* slot : slots) rows += slot->parameter.size(0);
  return rows;
}

/// The tensors as one matrix, if each begins in memory where the one before it ends, in one
/// storage: allocators put tensors of storages of their own side by side, too.
at::Tensor as_one_matrix(const std::vector<at::Tensor>& tensors) {
  const at::Tensor& first = tensors.front();
  const char* next = static_cast<const char*>(first.const_data_ptr());
  std::int64_t rows = 0;
  for (const at::Tensor& tensor : tensors) {
    const bool follows = tensor.const_data_ptr() == next && tensor.is_alias_of(first);
    if (!follows || !tensor.is_contiguous()) return {};
    next += tensor.nbytes();
    rows += tensor.size(0);
  }
  if (tensors.size() == 1) return first;
  return first.as_strided({rows, first.size(1)}, {first.size(1), 1});
}

/// Something is to be added to a gradient that was written as ranks exchange it: it becomes
/// float32.
void widen(const ParameterSlot& slot) {
  at::Tensor& gradient = slot.parameter.mutable_grad();
  if (!slot.reduced || !is_placeholder(slot.reduced->placeholder, gradient)) return;
  gradient = memory_for_gradient(slot);
  gradient.copy_(slot.reduced->memory);
}

/// Each slot takes its rows of `sum`, or adds them.
void distribute(Slots slots, const at::Tensor& sum) {
  std::int64_t row = 0;
  for (const ParameterSlot* slot : slots) {
    const std::int64_t count = slot->parameter.size(0);
    const at::Tensor values = sum.narrow(0, row, count);
    row += count;
    if (!slot->trained()) continue;
    at::Tensor& gradient = slot->parameter.mutable_grad();
    if (gradient.defined()) {
      gradient.add_(values);
    } else {
      gradient = memory_for_gradient(*slot);
      gradient.copy_(values);
    }
  }
}

}  // namespace

at::Tensor memory_for_gradient(const ParameterSlot& slot) {
  if (slot.scratch) slot.scratch->claim(slot.gradient);
  return slot.gradient.defined() ? slot.gradient : at::empty_like(slot.parameter);
}

bool is_placeholder(const at::Tensor& placeholder, const at::Tensor& gradient) {
  return gradient.defined() && gradient.const_data_ptr() == placeholder.const_data_ptr();
}

at::Tensor stack_weights(Slots slots) {
  const std::vector<at::Tensor> parts = mapped(slots, &ParameterSlot::weight);
  const at::Tensor whole = as_one_matrix(parts);
  return whole.defined() ? whole : at::cat(parts);
}

bool gradient_is_free(const ParameterSlot& slot) { return !slot.parameter.grad().defined(); }

void add_gradients(Slots slots, std::int64_t columns, const GradientProduct& product) {
  const auto trained = [](const ParameterSlot* slot) { return slot->trained(); };
  if (std::ranges::none_of(slots, trained)) return;
  for (const ParameterSlot* slot : slots) widen(*slot);
  const bool first = gradient_is_free(*slots.front());  // nothing to add to yet
  const bool alike = std::ranges::all_of(slots, [&](const ParameterSlot* slot) {
    return slot->trained() && gradient_is_free(*slot) == first;
  });
  if (alike) {
    const auto memory = [&](const ParameterSlot& slot) {
      return first ? memory_for_gradient(slot) : slot.parameter.grad();
    };
    std::vector<at::Tensor> parts;
    for (const ParameterSlot* slot : slots) parts.push_back(memory(*slot));
    if (at::Tensor whole = as_one_matrix(parts); whole.defined()) {
      for (std::size_t i = 0; i < slots.size(); ++i) slots[i]->parameter.mutable_grad() = parts[i];
      product(/*add=*/!first, whole);
      return;
    }
  }
  at::Tensor sum =
      at::empty({rows_of(slots), columns},
                slots.front()->parameter.options().dtype(at::kFloat).requires_grad(false));
  product(/*add=*/false, sum);
  distribute(slots, sum);
}

bool write_reduced_gradients(Slots slots, const std::function<void(at::Tensor& out)>& product) {
  std::vector<at::Tensor> parts;
  for (const ParameterSlot* slot : slots) {
    const bool may = slot->trained() && slot->reduced && *slot->reduced->allowed;
    if (!may || !gradient_is_free(*slot)) return false;
    parts.push_back(slot->reduced->memory);
  }
  at::Tensor whole = as_one_matrix(parts);
  if (!whole.defined()) return false;
  product(whole);
  for (const ParameterSlot* slot : slots) {
    slot->parameter.mutable_grad() = slot->reduced->placeholder;
  }
  return true;
}

at::Tensor empty_until_written(const ParameterSlot& slot, at::IntArrayRef sizes,
                               const at::TensorOptions& options) {
  return slot.scratch ? slot.scratch->empty(sizes, options, slot.gradient)
                      : at::empty(sizes, options);
}

at::Tensor& gradient_to_add_to(const ParameterSlot& slot) {
  widen(slot);
  at::Tensor& gradient = slot.parameter.mutable_grad();
  if (!gradient.defined()) {
    gradient = memory_for_gradient(slot);
    gradient.zero_();
  }
  return gradient;
}

}  // namespace ddprun
