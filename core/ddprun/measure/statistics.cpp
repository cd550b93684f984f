// Summary statistics of samples.
#include "ddprun/measure/statistics.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <limits>
#include <numeric>

namespace ddprun {

namespace {

double percentile(const std::vector<double>& sorted, double fraction) {
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], position - std::floor(position));
}

}  // namespace

Summary summarize(std::vector<double> samples) {
  Summary summary;
  summary.count = static_cast<int>(samples.size());
  if (samples.empty()) return summary;
  if (std::ranges::any_of(samples, [](double x) { return std::isnan(x); })) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    summary.mean = summary.std = summary.median = summary.p95 = summary.p99 = nan;
    summary.min = summary.max = summary.ci95 = nan;
    return summary;
  }
  std::ranges::sort(samples);
  const auto count = static_cast<double>(samples.size());
  summary.min = samples.front();
  summary.max = samples.back();
  summary.median = percentile(samples, 0.5);
  summary.p95 = percentile(samples, 0.95);
  summary.p99 = percentile(samples, 0.99);
  summary.mean = std::accumulate(samples.begin(), samples.end(), 0.0) / count;
  if (samples.size() == 1) return summary;
  double squares = 0.0;  // of deviations: sum(x^2) - n mean^2 would cancel
  for (const double sample : samples) squares += (sample - summary.mean) * (sample - summary.mean);
  summary.std = std::sqrt(squares / (count - 1.0));
  const boost::math::students_t distribution(count - 1.0);
  summary.ci95 = boost::math::quantile(distribution, 0.975) * summary.std / std::sqrt(count);
  return summary;
}

std::optional<double> welch_p(const std::vector<double>& a, const std::vector<double>& b) {
  const auto finite = [](double x) { return std::isfinite(x); };
  const bool usable = std::ranges::all_of(a, finite) && std::ranges::all_of(b, finite) &&
                      a.size() > 1 && b.size() > 1;
  if (!usable) return {};
  const Summary of_a = summarize(a), of_b = summarize(b);
  // Squared standard errors of the means.
  const double error_a = of_a.std * of_a.std / of_a.count;
  const double error_b = of_b.std * of_b.std / of_b.count;
  const double distance = std::abs(of_a.mean - of_b.mean);
  if (error_a + error_b <= 0) return distance > 0 ? 0.0 : 1.0;
  const double sum = error_a + error_b;
  const double freedom =
      sum * sum / (error_a * error_a / (of_a.count - 1) + error_b * error_b / (of_b.count - 1));
  const boost::math::students_t distribution(freedom);
  const double t = distance / std::sqrt(sum);
  return 2 * boost::math::cdf(boost::math::complement(distribution, t));
}

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
