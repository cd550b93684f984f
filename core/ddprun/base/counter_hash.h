// Counter-based random bits: value i of a stream is a function of (key, i) alone, so any rank or
// thread can compute any part.
#pragma once

#include <cstdint>

namespace ddprun {

/// A bijection of 64 bits that passes for random (SplitMix64's finalizer; Steele, Lea and Flood
/// 2014).
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

/// Value `counter` of the stream `key`. Several numbers key a stream when calls are chained:
/// counter_hash(counter_hash(seed, a), b).
constexpr std::uint64_t counter_hash(std::uint64_t key, std::uint64_t counter) {
  return mix_bits(mix_bits(key) + (counter + 1) * 0x9E3779B97F4A7C15U);
}

}  // namespace ddprun
