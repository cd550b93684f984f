// Tests and intervals of runs that took turns: each round is a pair, so that what changes with time
// meets both alike.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace ddprun {

struct Bounds {
  double low = 0, high = 0;
};

struct PairedTest {
  /// Two-sided: how often chance alone would move the mean at least as far from zero.
  double p = 1;
  Bounds interval = {};  ///< of the mean, 95 %
  const char* name = "";
};

/// With fewer values no mean is told from zero at 5 %, whatever they are, if nothing is assumed but
/// symmetry; with ten it is one of 512 arrangements.
inline constexpr std::size_t kLeastPermuted = 10;

/// Of the mean of `values`, one a round. From kLeastPermuted on by sign_flip_p() and
/// bca_interval(), else by Student's t. Nothing if there are fewer than three, or if one is not
/// finite.
std::optional<PairedTest> test_of_rounds(const std::vector<double>& values);
/// Its p alone, of three finite values at least.
double p_of_rounds(const std::vector<double>& values);

/// The permutation test of pairs (Fisher 1935): under chance each value has either sign. All
/// arrangements of 14 values and fewer, else 4,095 drawn ones, always the same.
double sign_flip_p(const std::vector<double>& values);

/// The bias-corrected and accelerated bootstrap interval of the mean, 95 % (Efron 1987), from
/// 20,000 samples, always the same.
Bounds bca_interval(const std::vector<double>& values);

/// What each p is among all of them, in their order (Holm 1979): as long as chance alone is at work
/// everywhere, the probability that one of them is below 0.05 is 5 % at most.
std::vector<double> holm(const std::vector<double>& p);

struct Calibration {
  /// How many of tables whose rows are all alike would call one of their tests a difference.
  double false_alarms = 0;
  /// The smallest difference of times, as a share, that this table would have told from chance in
  /// four of five cases; nothing: more than kLargest.
  std::optional<double> smallest = {};

  static constexpr double kLargest = 1;
};

/// Draws tables whose noise is that of `logs`: ln(first / second) of the runs of one row in each
/// round, three at least (a smoothed bootstrap, Silverman and Young 1987). A table has `tests`
/// comparisons of as many rounds, each of one run with the mean of two, corrected by holm(). The
/// same answer each time.
Calibration calibrate(const std::vector<double>& logs, std::size_t tests);

}  // namespace ddprun
