// What tables of chance alone say, and what is seen through it.

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "ddprun/result/paired_test.h"

namespace ddprun::calibration_test {
namespace {

std::vector<double> noise(std::size_t rounds, double deviation, std::uint64_t seed) {
  std::mt19937_64 dice(seed);
  std::normal_distribution<double> normal(0, deviation);
  std::vector<double> out(rounds);
  for (double& value : out) value = normal(dice);
  return out;
}

TEST(Calibration, FalseAlarmsAreOneInTwentyWhateverTheNumberOfTests) {
  for (const std::size_t tests : {1, 4, 12}) {
    for (const std::size_t rounds : {5, 10}) {
      const Calibration found = calibrate(noise(rounds, 0.02, 7), tests);
      EXPECT_LT(found.false_alarms, 0.10) << tests << " tests of " << rounds;
    }
  }
  EXPECT_GT(calibrate(noise(10, 0.02, 7), 1).false_alarms, 0.01);
}

TEST(Calibration, TheSmallestDifferenceIsOneThatIsSeenInFourOfFive) {
  const std::vector<double> twins = noise(10, 0.02, 3);
  const double smallest = calibrate(twins, 1).smallest.value();
  double squares = 0;
  for (const double value : twins) squares += value * value;
  const double deviation = std::sqrt(squares / 10 * 0.75);  // beside the mean of two runs
  int seen = 0;
  for (std::uint64_t trial = 0; trial < 400; ++trial) {
    std::vector<double> rounds = noise(10, deviation, 1000 + trial);
    for (double& value : rounds) value += std::log1p(smallest);
    seen += p_of_rounds(rounds) < 0.05 ? 1 : 0;
  }
  EXPECT_NEAR(seen / 400.0, 0.8, 0.08);
  EXPECT_NEAR(calibrate(noise(10, 0.04, 3), 1).smallest.value(), 2 * smallest, 0.3 * smallest);
  EXPECT_GT(calibrate(twins, 10).smallest.value(), smallest) << "more tests see less";
}

TEST(Calibration, WithoutNoiseEverythingIsSeenAndWithMuchNothing) {
  EXPECT_LT(calibrate({0, 0, 0}, 1).smallest.value(), 0.001);
  EXPECT_EQ(calibrate({0, 0, 0}, 1).false_alarms, 0);
  EXPECT_FALSE(calibrate({2, -1.5, 1}, 3).smallest);
}

}  // namespace
}  // namespace ddprun::calibration_test
