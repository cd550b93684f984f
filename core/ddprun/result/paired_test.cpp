// Sign flips, the bootstrap, Holm's correction, and how often all of them are right (calibration).
#include "ddprun/result/paired_test.h"

#include <algorithm>
#include <bit>
#include <boost/math/distributions/normal.hpp>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>

#include "ddprun/base/counter_hash.h"
#include "ddprun/measure/statistics.h"
#include "ddprun/result/comparison.h"

namespace ddprun {

namespace {

constexpr std::size_t kMostExact = 14;
constexpr std::uint64_t kDrawnFlips = 4095;
constexpr std::uint64_t kSamples = 20000;

double sum_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

/// How many arrangements of signs reach as far; each differs from the last in one (Gray 1953).
std::uint64_t exact_arrangements(const std::vector<double>& values, double reached) {
  double sum = -sum_of(values);
  std::vector<bool> positive(values.size());
  std::uint64_t as_far = std::abs(sum) >= reached ? 1 : 0;
  for (std::uint64_t i = 1; i < std::uint64_t{1} << values.size(); ++i) {
    const auto place = static_cast<std::size_t>(std::countr_zero(i));
    sum += positive[place] ? -2 * values[place] : 2 * values[place];
    positive[place] = !positive[place];
    as_far += std::abs(sum) >= reached ? 1 : 0;
  }
  return as_far;
}

double drawn_sum(const std::vector<double>& values, std::uint64_t draw) {
  double sum = 0;
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < values.size(); ++i, bits >>= 1) {
    if (i % 64 == 0) bits = counter_hash(draw, i / 64);
    sum += (bits & 1) != 0 ? values[i] : -values[i];
  }
  return sum;
}

double students_p(const std::vector<double>& values) {
  const Summary summary = summarize(values);
  const double error = summary.std / std::sqrt(summary.count);
  if (error <= 0) return summary.mean == 0 ? 1 : 0;
  const boost::math::students_t distribution(summary.count - 1.0);
  return 2 * cdf(complement(distribution, std::abs(summary.mean) / error));
}

/// The means of samples drawn with replacement, the smallest first.
std::vector<double> bootstrap_means(const std::vector<double>& values) {
  std::vector<double> means;
  for (std::uint64_t sample = 0; sample < kSamples; ++sample) {
    double sum = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      sum += values[counter_hash(sample, i) % values.size()];
    }
    means.push_back(sum / static_cast<double>(values.size()));
  }
  std::ranges::sort(means);
  return means;
}

/// How skewed the mean is, from the means that lack one value each.
double acceleration(const std::vector<double>& values) {
  const double mean = sum_of(values) / static_cast<double>(values.size());
  double squares = 0, cubes = 0;
  for (const double value : values) {
    const double off = value - mean;  // of the jackknife's means but for a factor, which cancels
    squares += off * off;
    cubes += off * off * off;
  }
  return cubes / (6 * std::pow(squares, 1.5));
}

double share_below(const std::vector<double>& sorted, double value) {
  const auto below = std::ranges::lower_bound(sorted, value) - sorted.begin();
  const auto up_to = std::ranges::upper_bound(sorted, value) - sorted.begin();
  return static_cast<double>(below + up_to) / 2 / static_cast<double>(sorted.size());
}

constexpr int kTables = 400;
constexpr double kPower = 0.8;

/// Noise like that of the pairs it is made from.
class Noise {
 public:
  explicit Noise(const std::vector<double>& logs) : logs_(logs) {
    double squares = 0;
    for (const double value : logs) squares += value * value;
    const auto count = static_cast<double>(logs.size());
    const double deviation = std::sqrt(squares / count);
    blur_ = deviation * std::pow(count, -0.2);  // Silverman's rule, near enough
    // A pair of single runs has the variance 2, of one with a mean of two 1.5; blurring adds to it.
    const double spread = std::hypot(deviation, blur_);
    scale_ = spread > 0 ? deviation / spread * std::sqrt(0.75) : 0;
  }

  double draw() {
    const double value = logs_[dice_() % logs_.size()];
    return ((dice_() & 1) != 0 ? value : -value) * scale_ + blur_ * scale_ * normal_(dice_);
  }

 private:
  const std::vector<double>& logs_;
  double blur_ = 0, scale_ = 0;
  std::mt19937_64 dice_{20};
  std::normal_distribution<double> normal_;
};

using Rounds = std::vector<double>;

std::vector<Rounds> drawn(Noise& noise, std::size_t comparisons, std::size_t rounds) {
  std::vector<Rounds> out(comparisons, Rounds(rounds));
  for (Rounds& each : out) std::ranges::generate(each, [&noise] { return noise.draw(); });
  return out;
}

/// Whether a test, among `tests`, would call it a difference.
bool told(const Rounds& rounds, double shift, std::size_t tests) {
  Rounds shifted = rounds;
  for (double& value : shifted) value += shift;
  return p_of_rounds(shifted) * static_cast<double>(tests) < Comparison::kNoise;
}

double share_told(const std::vector<Rounds>& all, double shift, std::size_t tests) {
  const auto hits =
      std::ranges::count_if(all, [&](const Rounds& each) { return told(each, shift, tests); });
  return static_cast<double>(hits) / static_cast<double>(all.size());
}

}  // namespace

double sign_flip_p(const std::vector<double>& values) {
  const double reached = std::abs(sum_of(values)) * (1 - 1e-9);
  if (values.size() <= kMostExact) {
    const auto all = static_cast<double>(std::uint64_t{1} << values.size());
    return static_cast<double>(exact_arrangements(values, reached)) / all;
  }
  std::uint64_t as_far = 1;  // the one that was found
  for (std::uint64_t draw = 0; draw < kDrawnFlips; ++draw) {
    as_far += std::abs(drawn_sum(values, draw)) >= reached ? 1 : 0;
  }
  return static_cast<double>(as_far) / static_cast<double>(kDrawnFlips + 1);
}

Bounds bca_interval(const std::vector<double>& values) {
  const double mean = sum_of(values) / static_cast<double>(values.size());
  const auto [least, most] = std::ranges::minmax(values);
  if (least == most) return {mean, mean};
  const std::vector<double> means = bootstrap_means(values);
  const boost::math::normal normal;
  const double bias = quantile(normal, std::clamp(share_below(means, mean), 1e-6, 1 - 1e-6));
  const double skew = acceleration(values);
  const auto end = [&](double share) {
    const double z = bias + quantile(normal, share);
    const double corrected = cdf(normal, bias + z / (1 - skew * z));
    const double place = corrected * static_cast<double>(means.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    return std::lerp(means[below], means[std::min(below + 1, means.size() - 1)],
                     place - std::floor(place));
  };
  return {end(0.025), end(0.975)};
}

double p_of_rounds(const std::vector<double>& values) {
  return values.size() < kLeastPermuted ? students_p(values) : sign_flip_p(values);
}

std::optional<PairedTest> test_of_rounds(const std::vector<double>& values) {
  const bool finite = std::ranges::all_of(values, [](double x) { return std::isfinite(x); });
  if (values.size() < 3 || !finite) return {};
  const double p = p_of_rounds(values);
  if (values.size() >= kLeastPermuted) {
    return PairedTest{p, bca_interval(values), "permutation of pairs"};
  }
  const Summary of = summarize(values);
  return PairedTest{p, {of.mean - of.ci95, of.mean + of.ci95}, "Student's t of pairs"};
}

std::vector<double> holm(const std::vector<double>& p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&p](std::size_t i) { return p[i]; });
  std::vector<double> out(p.size());
  double least = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    least = std::max(least, p[order[rank]] * static_cast<double>(p.size() - rank));
    out[order[rank]] = std::min(1.0, least);
  }
  return out;
}

Calibration calibrate(const std::vector<double>& logs, std::size_t tests) {
  Noise noise(logs);
  Calibration out;
  for (int table = 0; table < kTables; ++table) {
    const auto rows = drawn(noise, tests, logs.size());
    const bool alarm =
        std::ranges::any_of(rows, [&](const Rounds& row) { return told(row, 0, tests); });
    out.false_alarms += alarm ? 1.0 / kTables : 0;
  }
  const auto alone = drawn(noise, kTables, logs.size());
  double low = 0, high = std::log1p(Calibration::kLargest);
  if (share_told(alone, high, tests) < kPower) return out;
  for (int halving = 0; halving < 12; ++halving) {
    const double middle = (low + high) / 2;
    (share_told(alone, middle, tests) < kPower ? low : high) = middle;
  }
  out.smallest = std::expm1(high);
  return out;
}

}  // namespace ddprun
