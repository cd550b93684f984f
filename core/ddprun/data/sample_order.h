// Which sample comes when: of several sources, and within one, by permutations that take no memory.
//
// Family: mixture.cpp permutation.cpp
#pragma once

#include <cstdint>
#include <vector>

namespace ddprun {

/// Deals samples to sources: after any number of them each source has its share within one sample,
/// and which one sample n is of follows from n alone.
class Mixture {
 public:
  /// One weight a source, each above 0, and kCycle of them at most. Shares are multiples of
  /// 1 / kCycle, and of each source one at least.
  explicit Mixture(const std::vector<double>& weights);

  struct Dealt {
    std::size_t source = 0;
    std::int64_t number = 0;  ///< how many samples of that source came before
  };
  Dealt of(std::int64_t sample) const;

  static constexpr std::int64_t kCycle = 1000;  ///< samples, after which the order repeats

 private:
  std::vector<std::int64_t> quotas_;  ///< of each source in a cycle
  std::vector<Dealt> cycle_;
};

/// Where the permutation of 0 .. size - 1 that `key` draws sends `value`, which is below `size`,
/// at most 2^62. It is a Feistel network of 8 rounds (Luby and Rackoff 1988) on the smallest even
/// number of bits that holds size - 1, applied until the result is below `size` (cycle walking;
/// Black and Rogaway 2002), fewer than 4 times on average. Thread-safe.
std::uint64_t permuted(std::uint64_t value, std::uint64_t size, std::uint64_t key);

}  // namespace ddprun
