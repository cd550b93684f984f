// A Feistel network that walks its cycles.
#include "ddprun/data/sample_order.h"

#include <bit>
#include <utility>

#include "ddprun/base/counter_hash.h"

namespace ddprun {

namespace {

constexpr int kRounds = 8;

/// Of two halves of `bits` bits each.
std::uint64_t feistel(std::uint64_t value, int bits, std::uint64_t key) {
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  std::uint64_t left = value >> bits;
  std::uint64_t right = value & mask;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t bits_of_round = counter_hash(counter_hash(key, round), right);
    left = std::exchange(right, left ^ (bits_of_round & mask));
  }
  return (left << bits) | right;
}

}  // namespace

std::uint64_t permuted(std::uint64_t value, std::uint64_t size, std::uint64_t key) {
  const int half = (std::bit_width(size - 1) + 1) / 2;
  do {
    value = feistel(value, half, key);
  } while (value >= size);
  return value;
}

}  // namespace ddprun
