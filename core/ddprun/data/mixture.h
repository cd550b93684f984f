// Which of several sources a sample is of, by their weights.
#pragma once

#include <cstdint>
#include <vector>

namespace ddprun {

/// Deals samples to sources: after any number of them each source has its share within one sample,
/// and which one sample n is of follows from n alone.
class Mixture {
 public:
  /// One weight a source, each above 0. Shares are multiples of 1 / kCycle, and of each source one
  /// at least.
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

}  // namespace ddprun
