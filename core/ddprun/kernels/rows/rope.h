// RoPE (Su et al. 2021, section 3.2.2) on neighbouring pairs, in place.
#pragma once

#include <cstdint>

#include "ddprun/kernels/types.h"

namespace ddprun::kernels {

/// Turns each pair of each head of x by the angle of its position, or back by it if `inverse`;
/// turning back is the gradient.
/// x has rows of `width` elements (heads * head_dim), `stride` elements from row to row. Row r has
/// position (first_row + r) % time. head_dim is even. rotations: (time, head_dim / 2) pairs of
/// cosine and sine, as complex64 lies in memory.
void rope(std::int64_t rows, std::int64_t width, std::int64_t stride, std::int64_t head_dim,
          std::int64_t first_row, std::int64_t time, const float* rotations, bool inverse,
          float* x);
void rope(std::int64_t rows, std::int64_t width, std::int64_t stride, std::int64_t head_dim,
          std::int64_t first_row, std::int64_t time, const float* rotations, bool inverse, bf16* x);

}  // namespace ddprun::kernels
