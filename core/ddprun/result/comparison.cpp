// Comparisons of rows in words.
#include "ddprun/result/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <utility>

#include "ddprun/measure/statistics.h"

namespace ddprun {

namespace {

/// A smaller difference is no difference in tenths of a percent.
constexpr double kEqual = 0.0005;

std::string p_text(double p) {
  return p < 0.001 ? "p < 0.001" : fmt::format("p = {:.{}f}", p, p < 0.1 ? 3 : 2);
}

/// How words_of_times() says a ratio.
enum class Scale { saved, longer, times_faster, times_longer };
Scale scale_of(double ratio) {
  if (ratio <= 2.0 / 3) return Scale::times_faster;
  if (ratio < 1) return Scale::saved;
  return ratio < 1.5 ? Scale::longer : Scale::times_longer;
}

std::string interval_text(const Comparison& comparison) {
  const auto [low, high] = *comparison.interval;
  const auto percent = [](double a, double b) {
    return fmt::format("{:.1f} to {:.1f} %", a * 100, b * 100);
  };
  if (comparison.told == Told::share) return percent(low, high);
  if (comparison.told == Told::less) return percent(1 - high, 1 - low);
  switch (scale_of(comparison.ratio)) {
    case Scale::saved:
      return percent(1 - high, 1 - low);
    case Scale::longer:
      return percent(low - 1, high - 1);
    case Scale::times_faster:
      return fmt::format("{:.2f} to {:.2f} times", 1 / high, 1 / low);
    case Scale::times_longer:
      return fmt::format("{:.2f} to {:.2f} times", low, high);
  }
  return {};
}

bool all_positive(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double value) { return value > 0; });
}

/// Of the ratio of two means: the ratios that Welch's test does not tell from theirs (Fieller 1954,
/// "Some problems in interval estimation"). It leaves out 1 where welch_p() is below 1 -
/// `confidence`. Nothing: the spread is too large for bounds above 0.
std::optional<Bounds> interval_of_independent(const std::vector<double>& own,
                                              const std::vector<double>& base, double confidence) {
  if (!all_positive(own) || !all_positive(base)) return {};
  const Summary a = summarize(own), b = summarize(base);
  const double of_a = a.std * a.std / a.count, of_b = b.std * b.std / b.count, sum = of_a + of_b;
  if (sum <= 0) return Bounds{a.mean / b.mean, a.mean / b.mean};
  const boost::math::students_t distribution(
      sum * sum / (of_a * of_a / (a.count - 1) + of_b * of_b / (b.count - 1)));
  const double t = boost::math::quantile(distribution, (1 + confidence) / 2);
  const double lower = a.mean * a.mean - t * t * of_a, upper = b.mean * b.mean - t * t * of_b;
  if (lower <= 0 || upper <= 0) return {};
  const double middle = a.mean * b.mean, half = std::sqrt(middle * middle - lower * upper);
  return Bounds{(middle - half) / upper, (middle + half) / upper};
}

Comparison of_means(std::vector<double> own, std::vector<double> base, int chosen_from) {
  Comparison out{std::move(own), std::move(base)};
  out.chosen_from = std::max(chosen_from, 1);
  out.ratio = summarize(out.own).mean / summarize(out.base).mean;
  return out;
}

}  // namespace

Comparison compare(std::vector<double> own, std::vector<double> base, int chosen_from,
                   std::string untested) {
  Comparison out = of_means(std::move(own), std::move(base), chosen_from);
  out.untested = std::move(untested);
  if (!out.untested.empty()) return out;
  if (std::min(out.own.size(), out.base.size()) < Comparison::kLeastRuns) return out;
  if (const auto p = welch_p(out.own, out.base)) {
    out.p = std::min(1.0, *p * out.chosen_from);
    out.test = "Welch's t";
    out.interval = interval_of_independent(out.own, out.base, 1 - Comparison::kNoise);
  }
  return out;
}

Comparison compare_in_turns(std::vector<double> own, std::vector<double> base, int chosen_from) {
  Comparison out = of_means(std::move(own), std::move(base), chosen_from);
  if (!all_positive(out.own) || !all_positive(out.base)) {
    out.untested = "a run without any";
    return out;
  }
  const std::vector<double> logs = log_ratios(out);
  out.ratio = std::exp(summarize(logs).mean);
  const auto test = test_of_rounds(logs);
  if (!test) return out;
  out.p = std::min(1.0, test->p * out.chosen_from);
  out.interval = Bounds{std::exp(test->interval.low), std::exp(test->interval.high)};
  out.test = test->name;
  return out;
}

std::optional<Bounds> interval_of(const Comparison& comparison, double confidence) {
  if (!comparison.interval) return {};
  return interval_of_independent(comparison.own, comparison.base, confidence);
}

std::vector<double> log_ratios(const Comparison& comparison) {
  const std::vector<double>&own = comparison.own, &base = comparison.base;
  std::vector<double> logs;
  if (!all_positive(own) || !all_positive(base)) return logs;
  for (std::size_t i = 0; i < own.size(); ++i) logs.push_back(std::log(own[i] / base[i]));
  return logs;
}

std::string words_of_times(const Comparison& comparison) {
  const double ratio = comparison.ratio;
  if (std::abs(ratio - 1) < kEqual) return "is as fast as";
  switch (scale_of(ratio)) {
    case Scale::saved:
      return fmt::format("is {:.1f} % faster than", (1 - ratio) * 100);
    case Scale::longer:
      return fmt::format("takes {:.1f} % longer than", (ratio - 1) * 100);
    case Scale::times_faster:
      return fmt::format("is {:.2f} times as fast as", 1 / ratio);
    case Scale::times_longer:
      break;
  }
  return fmt::format("takes {:.2f} times as long as", ratio);
}

std::string verdict(const Comparison& comparison) {
  if (comparison.p) {
    std::string interval;
    if (comparison.interval) {
      const auto [low, high] = *comparison.interval;
      const bool contradicts = comparison.within_noise() && (low > 1 || high < 1);
      interval = (contradicts ? "; 95 %, not corrected: " : "; 95 %: ") + interval_text(comparison);
    }
    return fmt::format("{} ({}{})", comparison.within_noise() ? ", within noise" : "",
                       p_text(*comparison.p), interval);
  }
  if (!comparison.untested.empty()) return fmt::format(" ({}, not tested)", comparison.untested);
  const std::size_t runs = std::min(comparison.own.size(), comparison.base.size());
  if (runs == 1) return " (one run, not tested)";
  return fmt::format(" ({} runs, not tested)", runs);
}

nlohmann::json to_json(const Comparison& comparison) {
  nlohmann::json out = {{"runs", comparison.own},
                        {"base_runs", comparison.base},
                        {"ratio", comparison.ratio},
                        {"p", nullptr},
                        {"interval", nullptr},
                        {"test", comparison.test},
                        {"untested", comparison.untested},
                        {"chosen_from", comparison.chosen_from},
                        {"family", comparison.family}};
  if (comparison.p) out["p"] = *comparison.p;
  if (comparison.interval) out["interval"] = {comparison.interval->low, comparison.interval->high};
  return out;
}

}  // namespace ddprun
