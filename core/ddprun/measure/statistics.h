// The summary statistics of samples that every table and result uses, and a line through times.
#pragma once

#include <optional>
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

/// The two-sided p of Welch's t-test (Welch 1947, with Satterthwaite's degrees of freedom): how
/// often two sets of independent normal samples with equal means, whatever their variances, would
/// have means at least as far apart. Without any variance it is 1 if the means are equal, else 0.
/// Nothing if a set has fewer than two samples, or if one is not finite.
std::optional<double> welch_p(const std::vector<double>& a, const std::vector<double>& b);

/// y = intercept + slope x, by least squares of the relative residuals (weights 1 / y^2), so that
/// small values count as much as large ones.
struct LineFit {
  double intercept = 0, slope = 0;
  /// Standard errors, from the residuals with n - 2 degrees of freedom.
  double intercept_error = 0, slope_error = 0;
  /// Root mean square of the relative residuals.
  double rms_relative = 0;
  int points = 0;
};

/// Nothing if there are fewer than three points (two leave no residual), if all x are equal, or if
/// a y is not above zero. `x` and `y` are of one length.
std::optional<LineFit> fit_line(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace ddprun
