// The matrix products of the fused layers: float32, or bfloat16 operands with float32 sums. Rows of
// all operands are contiguous.
#pragma once

#include <ATen/core/Tensor.h>

#include "ddprun/optim/parameter_slot.h"

namespace ddprun {

/// Returns x weight^T (rows, out). x (rows, in), weight (out, in) and the result have one dtype.
at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight);
void linear_product_out(const at::Tensor& x, const at::Tensor& weight, at::Tensor& out);

/// Returns dy weight (rows, in). dy (rows, out), weight (out, in) and the result have one dtype.
at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight);
void input_gradient_out(const at::Tensor& dy, const at::Tensor& weight, at::Tensor& out);

/// out = dy^T x, or out += dy^T x if `add`. dy (rows, out) and x (rows, in) have contiguous rows;
/// out (out, in) is float32 and contiguous. bfloat16 products are not rounded before they are
/// added.
void weight_gradient(const at::Tensor& dy, const at::Tensor& x, bool add, at::Tensor& out);

/// Adds dy^T x to the gradients of matrices under each other. dy: (rows, sum of out_i), x: (rows,
/// in), both in the dtype of the products; the sums are float32. Where they are whole and travel in
/// bfloat16, they are rounded at once. Backward, no grad mode.
void add_weight_gradients(Slots slots, const at::Tensor& dy, const at::Tensor& x);

}  // namespace ddprun
