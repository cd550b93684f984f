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
  // The normal equations with weights 1 / y^2, and the inverse of their matrix.
  const auto fit = fit_line({1, 2, 3, 4}, {2.1, 2.9, 4.1, 4.9});
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->intercept, 1.12222312, 1e-8);
  EXPECT_NEAR(fit->slope, 0.94807469, 1e-8);
  EXPECT_NEAR(fit->rms_relative, 0.02709247, 1e-8);
  EXPECT_NEAR(fit->intercept_error, 0.11964301, 1e-8);
  EXPECT_NEAR(fit->slope_error, 0.05795515, 1e-8);
}

TEST(LineFit, NeedsThreePointsOfDifferentSizes) {
  EXPECT_FALSE(fit_line({1, 2}, {1, 2}));
  EXPECT_FALSE(fit_line({2, 2, 2}, {1, 2, 3}));
  EXPECT_FALSE(fit_line({1, 2, 3}, {1, 0, 3}));
  EXPECT_FALSE(fit_line({}, {}));
}

}  // namespace
}  // namespace ddprun
