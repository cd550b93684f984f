// Summaries against values that numpy and scipy give.
#include "ddprun/measure/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

namespace ddprun {
namespace {

TEST(Statistics, NoSamplesAndOneSample) {
  const Summary none = summarize({});
  EXPECT_EQ(none.count, 0);
  EXPECT_EQ(none.mean, 0.0);
  const Summary one = summarize({3.5});
  EXPECT_EQ(one.count, 1);
  EXPECT_EQ(one.mean, 3.5);
  EXPECT_EQ(one.median, 3.5);
  EXPECT_EQ(one.p95, 3.5);
  EXPECT_EQ(one.min, 3.5);
  EXPECT_EQ(one.max, 3.5);
  EXPECT_EQ(one.std, 0.0);
  EXPECT_EQ(one.ci95, 0.0);
}

TEST(Statistics, KnownSamplesInAnyOrder) {
  const Summary summary = summarize({4, 1, 10, 3, 2});
  EXPECT_EQ(summary.count, 5);
  EXPECT_DOUBLE_EQ(summary.mean, 4.0);
  EXPECT_DOUBLE_EQ(summary.std, std::sqrt(12.5));
  EXPECT_DOUBLE_EQ(summary.median, 3.0);
  EXPECT_DOUBLE_EQ(summary.p95, 8.8);   // position 3.8: 4 + 0.8 * (10 - 4)
  EXPECT_DOUBLE_EQ(summary.p99, 9.76);  // position 3.96
  EXPECT_EQ(summary.min, 1.0);
  EXPECT_EQ(summary.max, 10.0);
  EXPECT_NEAR(summary.ci95, 2.7764451052 * std::sqrt(12.5 / 5), 1e-9);
}

TEST(Statistics, MedianOfAnEvenCountLiesBetween) {
  EXPECT_DOUBLE_EQ(summarize({1, 2, 3, 10}).median, 2.5);
}

TEST(Statistics, QuantilesOfStudentsT) {
  // Table of t(0.975) by degrees of freedom.
  const std::pair<int, double> table[] = {{1, 12.7062047}, {2, 4.3026527},  {9, 2.2621572},
                                          {30, 2.0422725}, {99, 1.9842170}, {999, 1.9623415}};
  for (const auto& [degrees, quantile] : table) {
    std::vector<double> samples(static_cast<std::size_t>(degrees + 1));
    std::iota(samples.begin(), samples.end(), 0.0);
    const Summary summary = summarize(samples);
    EXPECT_NEAR(summary.ci95 / (summary.std / std::sqrt(degrees + 1.0)), quantile, 1e-6) << degrees;
  }
}

TEST(Statistics, LargeOffsetsDoNotCancel) {
  EXPECT_NEAR(summarize({1e9 + 1, 1e9 + 2, 1e9 + 3}).std, 1.0, 1e-9);
}

TEST(Statistics, NotANumberIsNotHidden) {
  const Summary summary = summarize({1, std::numeric_limits<double>::quiet_NaN(), 2});
  EXPECT_EQ(summary.count, 3);
  EXPECT_TRUE(std::isnan(summary.mean) && std::isnan(summary.median) && std::isnan(summary.ci95));
}

TEST(WelchsTest, AgreesWithTheDistributionOfStudentsT) {
  // t = 3 / sqrt(2/3), 4 degrees: p = 1 - t (t^2 + 6) / (t^2 + 4)^1.5.
  EXPECT_NEAR(welch_p({1, 2, 3}, {4, 5, 6}).value(), 0.0213116411, 1e-9);
  EXPECT_NEAR(welch_p({6, 4, 5}, {2, 1, 3}).value(), 0.0213116411, 1e-9) << "either way";
  // t = 2 / sqrt(5/3), 2.9412 degrees; the density integrated by Simpson's rule.
  EXPECT_NEAR(welch_p({1, 2, 3}, {2, 4, 6}).value(), 0.2208808405, 1e-8);
}

TEST(WelchsTest, EqualMeansAreNoDifference) {
  EXPECT_DOUBLE_EQ(welch_p({1, 2, 3}, {0, 2, 4}).value(), 1);
  EXPECT_DOUBLE_EQ(welch_p({2, 2}, {2, 2, 2}).value(), 1) << "without variance";
  EXPECT_DOUBLE_EQ(welch_p({2, 2}, {3, 3}).value(), 0);
}

TEST(WelchsTest, TooFewOrBrokenSamplesHaveNone) {
  EXPECT_FALSE(welch_p({1}, {1, 2, 3}));
  EXPECT_FALSE(welch_p({1, 2, 3}, {}));
  EXPECT_FALSE(welch_p({1, 2, std::nan("")}, {1, 2, 3}));
  EXPECT_FALSE(welch_p({1, 2, std::numeric_limits<double>::infinity()}, {1, 2, 3}));
}

}  // namespace
}  // namespace ddprun
