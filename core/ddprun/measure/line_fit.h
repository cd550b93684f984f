// A line through measured times.
#pragma once

#include <optional>
#include <vector>

namespace ddprun {

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
