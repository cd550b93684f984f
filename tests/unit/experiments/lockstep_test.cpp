// How far a tensor is from another one, and of ranks that have parts, which is furthest.
#include "ddprun/experiments/training_comparison/lockstep_rank.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace ddprun {
namespace {

at::Tensor values(const std::vector<double>& of) { return at::tensor(of, at::kDouble); }

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInfinity = std::numeric_limits<double>::infinity();

TEST(LargestDifference, IsMeasuredByTheLargestOfTheOneThatLeads) {
  const TensorDifference found = largest_difference(values({1, -8, 2}), values({1.5, -8, 1}), 10);
  EXPECT_EQ(found.element, 12);
  EXPECT_EQ(found.difference, 1);
  EXPECT_EQ(found.size, 8);
  EXPECT_EQ(found.lead, 2);
  EXPECT_EQ(found.other, 1);
}

TEST(LargestDifference, NothingOffIsZeroWhateverStandsThere) {
  EXPECT_EQ(
      largest_difference(values({0, kInfinity, kNan}), values({0, kInfinity, kNan})).difference, 0);
}

TEST(LargestDifference, WhatIsNoNumberIsFurthestOff) {
  const TensorDifference found = largest_difference(values({1, 2, 3}), values({100, kNan, 3}));
  EXPECT_TRUE(std::isnan(found.difference));
  EXPECT_EQ(found.element, 1);
}

TEST(LargestOfUpdate, CountsWhereTheWeightIsSmall) {
  // Both are off by 0.001; the update of 0.01 is as much in either.
  const TensorDifference found =
      largest_of_update(values({4, 0}), values({4.01, 0.01}), values({4.011, 0.011}));
  EXPECT_EQ(found.element, 1);
  EXPECT_NEAR(found.difference, 0.001, 1e-12);
  EXPECT_NEAR(found.size, 0.02, 1e-12);
}

TEST(LargestOfUpdate, OfWeightsThatStandStillIsZero) {
  EXPECT_EQ(largest_of_update(values({0, 1}), values({0, 1}), values({0, 1})).difference, 0);
}

TEST(Further, OfPartsTheSizeIsThatOfTheWhole) {
  const TensorDifference a{.phase = "backward", .difference = 2, .size = 3, .element = 7};
  const TensorDifference b{.phase = "backward", .difference = 1, .size = 9, .element = 8};
  for (const TensorDifference& found : {further(a, b), further(b, a)}) {
    EXPECT_EQ(found.element, 7);
    EXPECT_EQ(found.size, 9);
  }
}

TEST(Further, OfUpdatesEachIsMeasuredByItsOwn) {
  const TensorDifference a{.phase = "update", .difference = 2, .size = 8, .element = 7};
  const TensorDifference b{.phase = "update", .difference = 1, .size = 1, .element = 8};
  EXPECT_EQ(further(a, b).element, 8);
  EXPECT_EQ(further(b, a).element, 8);
  const TensorDifference none{.phase = "update", .difference = 0, .size = 0, .element = 9};
  EXPECT_EQ(further(none, b).element, 8);
}

}  // namespace
}  // namespace ddprun
