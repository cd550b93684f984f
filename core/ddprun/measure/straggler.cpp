// Excess over the other ranks, and the binomial test of whose it is.
#include "ddprun/measure/straggler.h"

#include <algorithm>
#include <cmath>

#include "ddprun/measure/statistics.h"

namespace ddprun {

namespace {

constexpr double kSlow = 0.05;     // of what the others take
constexpr double kMatters = 0.02;  // of the time of all steps
constexpr double kChance = 0.005;
constexpr double kNearlyAll = 0.8;  // of the steps since it began
constexpr std::size_t kQuiet = 3;   // steps before, or it always was slow

/// P(X >= k) of n trials.
double binomial_tail(std::size_t n, std::size_t k, double p) {
  double sum = 0;
  for (std::size_t i = k; i <= n; ++i) {
    const auto count = static_cast<double>(n), hits = static_cast<double>(i);
    sum += std::exp(std::lgamma(count + 1) - std::lgamma(hits + 1) - std::lgamma(count - hits + 1) +
                    hits * std::log(p) + (count - hits) * std::log1p(-p));
  }
  return sum;
}

std::optional<std::size_t> began(const std::vector<std::size_t>& slow, std::size_t steps) {
  for (std::size_t i = 0; i < slow.size(); ++i) {
    const auto share = static_cast<double>(slow.size() - i) / static_cast<double>(steps - slow[i]);
    if (share < kNearlyAll) continue;
    const bool began_late = slow[i] >= kQuiet && i <= slow[i] / 5;
    return began_late ? std::optional(slow[i]) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

double behind_others(const WorkOfRanks& work, std::size_t rank, std::size_t step) {
  std::vector<double> others;
  for (std::size_t other = 0; other < work.size(); ++other) {
    if (other != rank) others.push_back(work[other][step]);
  }
  return work[rank][step] - summarize(std::move(others)).median;
}

std::optional<Straggler> find_straggler(const WorkOfRanks& work) {
  if (work.size() < 2) return std::nullopt;
  const std::size_t steps = work.front().size();
  std::vector<Straggler> ranks(work.size());
  std::size_t with_slow_rank = 0;
  double all = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    const auto slowest = static_cast<std::size_t>(
        std::ranges::max_element(work, {}, [step](const auto& own) { return own[step]; }) -
        work.begin());
    all += work[slowest][step];
    const double behind = behind_others(work, slowest, step);
    if (behind <= kSlow * (work[slowest][step] - behind)) continue;
    ranks[slowest].slow_steps.push_back(step);
    ranks[slowest].behind += behind / static_cast<double>(steps);
    ++with_slow_rank;
  }
  const auto most = std::ranges::max_element(ranks, {}, &Straggler::behind);
  Straggler& found = *most;
  const auto count = static_cast<double>(work.size());
  const double chance = binomial_tail(with_slow_rank, found.slow_steps.size(), 1 / count) * count;
  if (chance >= kChance || found.behind * static_cast<double>(steps) < kMatters * all) {
    return std::nullopt;
  }
  found.rank = static_cast<std::size_t>(most - ranks.begin());
  found.since = began(found.slow_steps, steps);
  return found;
}

}  // namespace ddprun
