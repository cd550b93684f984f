// What a table can tell from chance: by runs of one row that took turns with themselves (A/A).
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace ddprun {

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
