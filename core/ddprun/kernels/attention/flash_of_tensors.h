// FlashAttention-2 of torch's tensors, without autograd.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddprun::kernels {

/// `out` (batch, heads, queries, width) in the inputs' dtype, laid out as (batch, queries, heads,
/// width), and log_sum_exp (batch, heads, queries) of each query's scaled scores, float32.
struct FlashOutput {
  at::Tensor out, log_sum_exp;
};

/// Attention of q (batch, heads, queries, width) to k and v (batch, heads, keys, width): float32 or
/// bfloat16, all of one dtype, on the CPU, with any strides. There is at least one key. If causal,
/// query i sees the keys 0 to i. `scale`: factor of the scores, positive; 0 means 1/sqrt(width).
FlashOutput flash_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          bool causal, double scale);

struct FlashGradients {
  at::Tensor dq, dk, dv;
};

/// The gradients of q, k and v, from the gradient of `out` and what forward took and returned.
FlashGradients flash_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                              const at::Tensor& v, const FlashOutput& forward, bool causal,
                              double scale);

}  // namespace ddprun::kernels
