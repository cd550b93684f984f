// FlashAttention-2 of torch's tensors, without autograd.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddprun::kernels {

/// `out` (batch, heads, queries, width) in the inputs' dtype, laid out as (batch, queries, heads,
/// width), and log_sum_exp (batch, heads, queries) of each query's scaled scores, float32.
struct FlashOutput {
  at::Tensor out, log_sum_exp;
};

/// Which keys a query sees. If causal, query i sees the keys up to i; else all. With first_keys
/// (batch, queries) int32, contiguous, it sees none before its own first one, which it may see, and
/// which does not fall from one query to the next.
struct FlashMask {
  bool causal = true;
  at::Tensor first_keys = {};
};

/// Attention of q (batch, heads, queries, width) to k and v (batch, heads, keys, width): float32 or
/// bfloat16, all of one dtype, on the CPU, with any strides. There is at least one key. `scale`:
/// factor of the scores, positive; 0 means 1/sqrt(width).
FlashOutput flash_forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          const FlashMask& mask, double scale);

struct FlashGradients {
  at::Tensor dq, dk, dv;
};

/// The gradients of q, k and v, from the gradient of `out` and what forward took and returned.
FlashGradients flash_backward(const at::Tensor& dout, const at::Tensor& q, const at::Tensor& k,
                              const at::Tensor& v, const FlashOutput& forward,
                              const FlashMask& mask, double scale);

}  // namespace ddprun::kernels
