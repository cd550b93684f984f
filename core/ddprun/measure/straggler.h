// The rank that others wait for, from how long each computed in each step.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace ddprun {

/// Of each rank, a value for each step: how long it computed, waits left out.
using WorkOfRanks = std::vector<std::vector<double>>;

struct Straggler {
  std::size_t rank = 0;
  std::vector<std::size_t> slow_steps;  ///< their places, in order
  double behind = 0;                    ///< mean over all steps, in the values' unit
  /// The step from which on nearly all are slow, where nearly none was before: the place of the
  /// rise of its excess, by least squares.
  std::optional<std::size_t> since = {};
};

/// A rank is slow in a step if it is the slowest, and behind the median of the others by 5 % of
/// what a step usually takes: the median over the steps of the slowest rank's. It is named if
/// - the steps with a slow rank are its own more often than chance explains (binomial test,
///   p < 0.005 after Bonferroni), so it takes nine steps at least with two ranks;
/// - it is behind by 2 % of the time in all;
/// - in four parts of the steps since it began it is behind by 5 % in the mean, and the 95 %
///   confidence interval of that mean over the parts is above 0. So a core that is slower for a
///   part of the run names nobody.
/// `work`: of as many steps on each rank.
std::optional<Straggler> find_straggler(const WorkOfRanks& work);

/// By how much a rank's value is above the median of the others' in that step.
double behind_others(const WorkOfRanks& work, std::size_t rank, std::size_t step);

}  // namespace ddprun
