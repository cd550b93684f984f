// One operator. Documents need a mask, which says all of it.
#include "ddprun/model/plain_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/scaled_dot_product_attention.h>

namespace ddprun {

at::Tensor plain_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const at::Tensor& first_keys) {
  if (!first_keys.defined()) {
    return at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true);
  }
  const at::Tensor places = at::arange(k.size(2), first_keys.options());
  const at::Tensor seen = (places >= first_keys.unsqueeze(-1)) & (places <= places.unsqueeze(-1));
  return at::scaled_dot_product_attention(q, k, v, seen.unsqueeze(1));
}

}  // namespace ddprun
