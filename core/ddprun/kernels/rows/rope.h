// RoPE (Su et al. 2021, section 3.2.2) on neighbouring pairs, in place.
#pragma once

#include <cstdint>

#include "ddprun/kernels/types.h"

namespace ddprun::kernels {

/// (time, head_dim / 2) pairs of cosine and sine, as complex64 lies in memory. head_dim is even.
struct Rotations {
  const float* data;
  std::int64_t time, head_dim;
};

/// Turns each pair of each head of x (rows, heads * head_dim) by the angle of its position, or back
/// by it if `inverse`; turning back is the gradient. Row r has position (first_row + r) % time. T:
/// float or bf16.
template <class T>
void rope(const Rotations& rotations, std::int64_t first_row, bool inverse, const Matrix<T>& x);

}  // namespace ddprun::kernels
