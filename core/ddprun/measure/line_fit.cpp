// Weighted least squares.
#include "ddprun/measure/statistics.h"

#include <algorithm>
#include <cmath>

namespace ddprun {

std::optional<LineFit> fit_line(const std::vector<double>& x, const std::vector<double>& y) {
  const std::size_t n = x.size();
  if (n < 3 || std::ranges::any_of(y, [](double each) { return !(each > 0); })) return {};
  double w = 0, wx = 0, wy = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double weight = 1 / (y[i] * y[i]);
    w += weight;
    wx += weight * x[i];
    wy += weight * y[i];
  }
  const double mean_x = wx / w, mean_y = wy / w;
  double sxx = 0, sxy = 0;  // about the means: sums of squares would cancel
  for (std::size_t i = 0; i < n; ++i) {
    const double weight = 1 / (y[i] * y[i]);
    sxx += weight * (x[i] - mean_x) * (x[i] - mean_x);
    sxy += weight * (x[i] - mean_x) * (y[i] - mean_y);
  }
  if (!(sxx > 0)) return {};
  LineFit fit;
  fit.points = static_cast<int>(n);
  fit.slope = sxy / sxx;
  fit.intercept = mean_y - fit.slope * mean_x;
  double squares = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double relative = (y[i] - fit.intercept - fit.slope * x[i]) / y[i];
    squares += relative * relative;
  }
  fit.rms_relative = std::sqrt(squares / static_cast<double>(n));
  const double variance = squares / static_cast<double>(n - 2);  // of y / weight
  fit.slope_error = std::sqrt(variance / sxx);
  fit.intercept_error = std::sqrt(variance * (1 / w + mean_x * mean_x / sxx));
  return fit;
}

}  // namespace ddprun
