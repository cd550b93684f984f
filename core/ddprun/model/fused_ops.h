// What the fused layers compute with: operators `ddprun::...` of PyTorch's dispatcher, so that each
// device has kernels of its own and profilers see them as they see ATen's.
// Family: fused_ops.cpp fused_ops_cpu.cpp
#pragma once

#include <ATen/core/Tensor.h>

#include "ddprun/optim/parameter_slot.h"

namespace ddprun::fused {

/// What an RMSNorm's forward keeps for its backward.
struct Normed {
  at::Tensor x;            ///< (rows, width) float32: what was normalized
  at::Tensor y;            ///< (rows, width) T
  at::Tensor inverse_rms;  ///< (rows,) float32
};

/// Writes y = RMSNorm(x) with `weight` (width,) float32. x: (rows, width) float32.
Normed rms_norm(const at::Tensor& x, const at::Tensor& weight, float eps, const at::Tensor& y);

/// Returns dsum + the gradient of the norm, (rows, width) float32. Adds to the weight's gradient.
/// dsum is float32 and may be undefined.
at::Tensor rms_norm_backward(const at::Tensor& dy, const Normed& normed, const at::Tensor& dsum,
                             const ParameterSlot& weight);

/// RoPE in place on x (rows, heads * head_dim).
void rope(const at::Tensor& x, std::int64_t head_dim, std::int64_t time,
          const at::Tensor& rotations, bool inverse);

/// up_gate: (rows, 2 * width) -> (rows, width).
at::Tensor swiglu(const at::Tensor& up_gate);
/// Replaces up_gate by its gradient; returns swiglu(up_gate), computed again.
at::Tensor swiglu_backward(const at::Tensor& dh, at::Tensor& up_gate);

/// Writes stream (float32) + branch (T), float32, to `sum`.
void add_branch(const at::Tensor& stream, const at::Tensor& branch, at::Tensor& sum);

/// gradient (vocab, width) += rows of dx (rows, width) at ids.
void embedding_backward(const at::Tensor& dx, const at::Tensor& ids, const ParameterSlot& table);

/// Adds the cross-entropies of the rows to `losses`, (rows or more,) double, in parts; rows with a
/// negative target do not count. If `with_gradient`, the gradient times `scale` replaces the
/// logits.
void cross_entropy(at::Tensor& logits, const at::Tensor& targets, float scale, bool with_gradient,
                   const at::Tensor& losses);

// Matrix products of float32, or of bfloat16 operands with float32 sums. Rows of all operands are
// contiguous.

/// Returns x weight^T (rows, out). x (rows, in), weight (out, in) and the result have one dtype.
at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight);
void linear_product_out(const at::Tensor& x, const at::Tensor& weight, at::Tensor& out);

/// Returns dy weight (rows, in). dy (rows, out), weight (out, in) and the result have one dtype.
at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight);
void input_gradient_out(const at::Tensor& dy, const at::Tensor& weight, at::Tensor& out);

/// out = dy^T x, or out += dy^T x if `add`. dy (rows, out) and x (rows, in) have contiguous rows;
/// out (out, in) is contiguous, and float32 to be added to. bfloat16 products are not rounded
/// before they are added.
void weight_gradient(const at::Tensor& dy, const at::Tensor& x, bool add, at::Tensor& out);

/// Adds dy^T x to the gradients of matrices under each other. dy: (rows, sum of out_i), x: (rows,
/// in), both in the dtype of the products; the sums are float32. Where they are whole and travel in
/// bfloat16, they are rounded at once. Backward, no grad mode.
void add_weight_gradients(Slots slots, const at::Tensor& dy, const at::Tensor& x);

}  // namespace ddprun::fused
