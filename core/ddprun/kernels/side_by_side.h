// How q, k and v of a joint projection lie in memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace ddprun::kernels {

/// Whether q, k and v (batch, heads, time, width) are columns v, k, q of one matrix (batch * time,
/// 3 * heads * width), as a joint projection makes them. Attention lays their gradients out alike.
inline bool side_by_side(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const std::int64_t width = v.size(1) * v.size(3);  // of all heads
  const auto follows = [&](const at::Tensor& first, const at::Tensor& second) {
    return second.is_alias_of(first) && second.sizes() == first.sizes() &&
           second.strides() == first.strides() &&
           second.storage_offset() == first.storage_offset() + width;
  };
  return v.stride(3) == 1 && v.stride(1) == v.size(3) && v.stride(2) == 3 * width &&
         v.stride(0) == v.size(2) * v.stride(2) && follows(v, k) && follows(k, q);
}

}  // namespace ddprun::kernels
