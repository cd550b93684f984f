// Lines through known points.
#include "ddprun/measure/statistics.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(LineFit, FindsTheLineThatPointsLieOn) {
  const auto fit = fit_line({1e3, 1e5, 1e9}, {20 + 1e3 / 5e3, 20 + 1e5 / 5e3, 20 + 1e9 / 5e3});
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->intercept, 20, 1e-6);
  EXPECT_NEAR(fit->slope, 1 / 5e3, 1e-12);
  EXPECT_NEAR(fit->rms_relative, 0, 1e-9);
  EXPECT_NEAR(fit->intercept_error, 0, 1e-6);
  EXPECT_EQ(fit->points, 3);
}

TEST(LineFit, SmallTimesCountAsMuchAsLargeOnes) {
  // One percent off at the largest size would move an unweighted latency by far more than all of
  // it.
  const auto fit = fit_line({1e3, 1e4, 1e5, 1e9}, {10.2, 12, 30, 202000});
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->intercept, 10, 0.5);
  EXPECT_GT(fit->intercept_error, 0);
  EXPECT_GT(fit->slope_error, 0);
}

TEST(LineFit, TheErrorIsThatOfTheResiduals) {
  // Relative residuals about y = 1 + x, by hand: -+ 0.1 / y.
  const auto fit = fit_line({1, 2, 3, 4}, {2.1, 2.9, 4.1, 4.9});
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->rms_relative, 0.03, 0.01);
}

TEST(LineFit, NeedsThreePointsOfDifferentSizes) {
  EXPECT_FALSE(fit_line({1, 2}, {1, 2}));
  EXPECT_FALSE(fit_line({2, 2, 2}, {1, 2, 3}));
  EXPECT_FALSE(fit_line({1, 2, 3}, {1, 0, 3}));
  EXPECT_FALSE(fit_line({}, {}));
}

}  // namespace
}  // namespace ddprun
