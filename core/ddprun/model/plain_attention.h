// Attention by PyTorch's operator, which a plugin's is held against.
#pragma once

#include <ATen/core/Tensor.h>

namespace ddprun {

/// q, k and v: (batch, heads, time, head_dim). Causal, and within documents as
/// AttentionOptions::first_keys says; differentiable.
at::Tensor plain_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const at::Tensor& first_keys);

}  // namespace ddprun
