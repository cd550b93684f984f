// How the fused kernels read a parameter and where they write its gradient.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>

namespace ddprun {

/// One parameter of a model that computes by fused kernels. A gradient follows PyTorch's own
/// convention: while parameter.grad() is undefined there is none yet, and the first one is written,
/// not added.
struct ParameterSlot {
  at::Tensor parameter;  ///< the leaf, float32
  at::Tensor compute;    ///< its copy in the dtype of the matrix products; undefined: none
  at::Tensor gradient;  ///< float32, contiguous, its shape: memory for the gradient; undefined: the
                        ///< memory is allocated when needed

  /// What the matrix products read.
  const at::Tensor& weight() const { return compute.defined() ? compute : parameter; }
};

using Slots = std::span<const ParameterSlot* const>;

/// The matrices (out_i, in) under each other, (sum of out_i, in), in the dtype of the products:
/// without a copy where they lie so in memory.
at::Tensor stack_weights(Slots slots);

/// Writes a matrix (rows, columns), float32: out = it, or out += it.
using GradientProduct = std::function<void(bool add, at::Tensor& out)>;

/// Adds what `product` writes, (sum of out_i, columns), to the gradients of matrices under each
/// other: in one call, and in place, where these lie so in memory. Backward, no grad mode.
void add_gradients(Slots slots, std::int64_t columns, const GradientProduct& product);

/// The gradient to add to, zeroed if this is the first addition; it is the parameter's .grad from
/// then on.
float* gradient_to_add_to(const ParameterSlot& slot);

/// True while .grad is undefined: `slot.gradient` is nobody's yet.
bool gradient_is_free(const ParameterSlot& slot);

}  // namespace ddprun
