// Excess over the other ranks, the binomial test of whose it is, and batch means of how it lasts.
#include "ddprun/measure/straggler.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <numeric>

#include "ddprun/measure/statistics.h"

namespace ddprun {

namespace {

constexpr double kSlow = 0.05;     // of what a step usually takes
constexpr double kMatters = 0.02;  // of the time of all steps
constexpr double kChance = 0.005;
constexpr double kNearlyAll = 0.8;  // of the steps since it began; before, of those not slow
constexpr std::size_t kQuiet = 3;   // steps before, or it always was slow
constexpr std::size_t kParts = 4;   // of the steps since then

/// P(X >= k) of n trials.
double binomial_tail(std::size_t n, std::size_t k, double p) {
  if (k == 0) return 1;
  const boost::math::binomial distribution(static_cast<double>(n), p);
  return cdf(complement(distribution, static_cast<double>(k - 1)));
}

/// What the slowest rank takes, step by step.
std::vector<double> longest_of(const WorkOfRanks& work) {
  std::vector<double> longest = work.front();
  for (const std::vector<double>& own : work) {
    std::ranges::transform(longest, own, longest.begin(), std::ranges::max);
  }
  return longest;
}

/// By how much a rank is above the others, step by step.
std::vector<double> excess_of(const WorkOfRanks& work, std::size_t rank) {
  std::vector<double> excess(work.front().size());
  for (std::size_t step = 0; step < excess.size(); ++step) {
    excess[step] = behind_others(work, rank, step);
  }
  return excess;
}

/// The step from which on values are higher: where two means fit best, by least squares.
std::size_t rise_of(const std::vector<double>& values) {
  const double all = std::accumulate(values.begin(), values.end(), 0.0);
  const auto count = static_cast<double>(values.size());
  std::size_t place = 0;
  double best = 0, before = 0;
  for (std::size_t i = 1; i < values.size(); ++i) {
    before += values[i - 1];
    const auto n = static_cast<double>(i);
    const double rise = (all - before) / (count - n) - before / n;
    const double explained = rise > 0 ? rise * rise * n * (count - n) : 0;
    if (explained <= best) continue;
    best = explained;
    place = i;
  }
  return place;
}

/// From which step on nearly all are slow, and nearly none before; nothing: always, or by turns.
std::optional<std::size_t> began(const WorkOfRanks& work, const Straggler& straggler) {
  const std::size_t place = rise_of(excess_of(work, straggler.rank));
  const auto& slow = straggler.slow_steps;
  const auto first = std::ranges::lower_bound(slow, place);
  const auto before = static_cast<double>(first - slow.begin());
  const auto after = static_cast<double>(slow.end() - first);
  const auto steps = static_cast<double>(work.front().size() - place);
  if (place < kQuiet || after < kNearlyAll * steps) return std::nullopt;
  return before <= (1 - kNearlyAll) * static_cast<double>(place) ? std::optional(place)
                                                                 : std::nullopt;
}

/// Whether the rank is behind in all parts of the steps since it began. Steps that are near each
/// other are alike, parts hardly (batch means: Conway 1963).
bool lasts(const WorkOfRanks& work, const Straggler& straggler) {
  const std::size_t begin = straggler.since.value_or(0);
  const std::size_t steps = work.front().size() - begin, parts = std::min(kParts, steps);
  std::vector<double> behind(parts), others(parts);
  for (std::size_t i = 0; i < steps; ++i) {
    const double excess = behind_others(work, straggler.rank, begin + i);
    behind[i * parts / steps] += excess;
    others[i * parts / steps] += work[straggler.rank][begin + i] - excess;
  }
  std::ranges::transform(behind, others, behind.begin(), std::divides());
  const Summary of = summarize(std::move(behind));
  return of.mean >= kSlow && of.mean > of.ci95;
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
  const std::vector<double> longest = longest_of(work);
  const double usual = summarize(longest).median;
  std::size_t with_slow_rank = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    const auto slowest = static_cast<std::size_t>(
        std::ranges::max_element(work, {}, [step](const auto& own) { return own[step]; }) -
        work.begin());
    const double behind = behind_others(work, slowest, step);
    if (behind <= kSlow * usual) continue;
    ranks[slowest].slow_steps.push_back(step);
    ranks[slowest].behind += behind / static_cast<double>(steps);
    ++with_slow_rank;
  }
  const auto most = std::ranges::max_element(ranks, {}, &Straggler::behind);
  Straggler& found = *most;
  const auto count = static_cast<double>(work.size());
  const double chance = binomial_tail(with_slow_rank, found.slow_steps.size(), 1 / count) * count;
  if (chance >= kChance || found.behind < kMatters * summarize(longest).mean) return std::nullopt;
  found.rank = static_cast<std::size_t>(most - ranks.begin());
  found.since = began(work, found);
  return lasts(work, found) ? std::optional(found) : std::nullopt;
}

}  // namespace ddprun
