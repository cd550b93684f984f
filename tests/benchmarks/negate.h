// The least that can be done to memory that is read and written, in the CPU's widest vectors.
#pragma once

#include <cstdint>

namespace ddprun {

/// x = -x and y = -y, over `count` elements of each, in turns.
void negate_pair(std::int64_t count, float* x, float* y);
void negate(std::int64_t count, float* x);

}  // namespace ddprun
