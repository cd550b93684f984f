// Lengths of unions of intervals.
#include "ddprun/measure/intervals.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(UnionLength, IsZeroForNothing) {
  EXPECT_EQ(union_length({}), 0);
  EXPECT_EQ(union_length({{5, 5}, {7, 3}}), 0);
}

TEST(UnionLength, CountsOverlapOnce) {
  EXPECT_EQ(union_length({{0, 10}, {5, 15}}), 15);
  EXPECT_EQ(union_length({{0, 10}, {2, 4}}), 10);
  EXPECT_EQ(union_length({{2, 4}, {0, 10}, {20, 21}}), 11);
}

TEST(UnionLength, AddsTouchingIntervals) { EXPECT_EQ(union_length({{0, 1}, {1, 3}}), 3); }

TEST(UnionLength, IgnoresAnEmptyIntervalInsideAnother) {
  EXPECT_EQ(union_length({{0, 10}, {4, 2}, {8, 12}}), 12);
}

TEST(Without, CutsHolesOut) {
  const auto cut = [](std::vector<Interval> holes) {
    return without({{0, 10}, {20, 30}}, std::move(holes));
  };
  using Intervals = std::vector<Interval>;
  EXPECT_EQ(cut({}), (Intervals{{0, 10}, {20, 30}}));
  EXPECT_EQ(cut({{2, 4}, {3, 5}, {9, 21}}), (Intervals{{0, 2}, {5, 9}, {21, 30}}));
  EXPECT_EQ(cut({{-1, 10}, {25, 99}}), (Intervals{{20, 25}}));
  EXPECT_EQ(cut({{0, 30}}), Intervals{});
}

}  // namespace
}  // namespace ddprun
