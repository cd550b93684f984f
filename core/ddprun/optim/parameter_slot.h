// How the fused kernels read a parameter and where they write its gradient.
#pragma once

#include <ATen/core/Tensor.h>

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

/// Adds dy^T x to the gradients of matrices under each other. dy: (rows, sum of out_i), x: (rows,
/// in), both in the dtype of the products; the sums are float32. Backward, no grad mode.
void add_weight_gradients(Slots slots, const at::Tensor& dy, const at::Tensor& x);

/// The gradient to add to, zeroed if this is the first addition; it is the parameter's .grad from
/// then on.
float* gradient_to_add_to(const ParameterSlot& slot);

/// True while .grad is undefined: `slot.gradient` is nobody's yet.
bool gradient_is_free(const ParameterSlot& slot);

}  // namespace ddprun
