// Permutations of whole numbers that take no memory.
#pragma once

#include <cstdint>

namespace ddprun {

/// Where the permutation of 0 .. size - 1 that `key` draws sends `value`, which is below `size`,
/// at most 2^62. It is a Feistel network of 8 rounds (Luby and Rackoff 1988) on the smallest even
/// number of bits that holds size - 1, applied until the result is below `size` (cycle walking;
/// Black and Rogaway 2002), fewer than 4 times on average. Thread-safe.
std::uint64_t permuted(std::uint64_t value, std::uint64_t size, std::uint64_t key);

}  // namespace ddprun
