// The summary statistics of samples that every table and result uses.
#pragma once

#include <vector>

namespace ddprun {

struct Summary {
  int count = 0;
  double mean = 0, std = 0 /* sample, n - 1 */, median = 0, p95 = 0, p99 = 0, min = 0, max = 0;
  double ci95 = 0;  ///< half-width of the 95 % confidence interval of the mean (Student's t)
};

/// Without samples all figures are zero. With one sample std and ci95 are zero. If a sample is NaN,
/// all but the count are NaN. Percentiles interpolate linearly between order statistics (as numpy's
/// default).
Summary summarize(std::vector<double> samples);

}  // namespace ddprun
