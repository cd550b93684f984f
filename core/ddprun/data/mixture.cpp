// Quotas of a cycle, then always the source that is furthest behind.
#include "ddprun/data/sample_order.h"

#include <algorithm>
#include <numeric>

namespace ddprun {

namespace {

/// Whole numbers that add up to `total`, one at least each, by the largest remainders. No more
/// weights than that.
std::vector<std::int64_t> quotas_of(const std::vector<double>& weights, std::int64_t total) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::int64_t> quotas;
  std::vector<double> lacks;  // how far each is below its share
  for (const double weight : weights) {
    const double share = weight / sum * static_cast<double>(total);
    quotas.push_back(std::max<std::int64_t>(1, static_cast<std::int64_t>(share)));
    lacks.push_back(share - static_cast<double>(quotas.back()));
  }
  std::int64_t left = total - std::accumulate(quotas.begin(), quotas.end(), std::int64_t{0});
  for (; left > 0; --left) {
    const auto place = std::ranges::max_element(lacks);
    ++quotas[static_cast<std::size_t>(place - lacks.begin())];
    *place -= 1;
  }
  for (; left < 0; ++left) --*std::ranges::max_element(quotas);  // what has one keeps it
  return quotas;
}

}  // namespace

Mixture::Mixture(const std::vector<double>& weights) : quotas_(quotas_of(weights, kCycle)) {
  std::vector<std::int64_t> dealt(quotas_.size());
  for (std::int64_t sample = 0; sample < kCycle; ++sample) {
    const auto behind = [&](std::size_t source) {
      return static_cast<double>(quotas_[source]) * static_cast<double>(sample + 1) / kCycle -
             static_cast<double>(dealt[source]);
    };
    std::size_t furthest = 0;
    for (std::size_t source = 1; source < quotas_.size(); ++source) {
      if (behind(source) > behind(furthest)) furthest = source;
    }
    cycle_.push_back({furthest, dealt[furthest]++});
  }
}

Mixture::Dealt Mixture::of(std::int64_t sample) const {
  const auto& [source, number] = cycle_[static_cast<std::size_t>(sample % kCycle)];
  return {source, sample / kCycle * quotas_[source] + number};
}

}  // namespace ddprun
