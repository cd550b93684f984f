// Tables made of nothing but the noise that there is.
#include "ddprun/result/paired_test.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "ddprun/result/comparison.h"

namespace ddprun {

namespace {

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
    // A pair of single runs has the variance 2, one with a mean of two runs 1.5; blurring adds to
    // it.
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
