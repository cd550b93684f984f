// Summary statistics of samples, as every table and result uses them.
#pragma once

#include <vector>

namespace ddprun {

struct Summary {
  int count = 0;
  double mean = 0, std = 0 /* sample, n - 1 */, median = 0, p95 = 0, min = 0, max = 0;
  double ci95 = 0;  ///< half-width of the 95 % confidence interval of the mean (Student's t)
};

/// All zero for no samples; std and ci95 are zero for one; all but the count are NaN if a sample
/// is. Percentiles interpolate linearly between order statistics (as numpy's default).
Summary summarize(std::vector<double> samples);

}  // namespace ddprun
