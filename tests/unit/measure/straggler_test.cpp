// The rank that others wait for.
#include "ddprun/measure/straggler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace ddprun {
namespace {

/// Steps of 10 that spread by `spread`, drawn from `seed`.
WorkOfRanks quiet(std::size_t ranks, std::size_t steps, double spread, std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  std::normal_distribution<double> work(10, spread);
  WorkOfRanks out(ranks, std::vector<double>(steps));
  for (auto& rank : out) {
    for (double& each : rank) each = work(draw);
  }
  return out;
}

TEST(Straggler, IsNamedWithItsSteps) {
  WorkOfRanks work = quiet(2, 20, 0.1, 1);
  for (std::size_t step = 0; step < 20; step += 2) work[1][step] += 2;
  const auto found = find_straggler(work);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 1);
  EXPECT_EQ(found->slow_steps.size(), 10);
  EXPECT_NEAR(found->behind, 1, 0.2) << "2 in half of the steps";
  EXPECT_FALSE(found->since) << "it always was";
}

TEST(Straggler, OneThatBecameSlowSaysSinceWhen) {
  WorkOfRanks work = quiet(4, 30, 0.1, 2);
  for (std::size_t step = 12; step < 30; ++step) work[2][step] += 1;
  const auto found = find_straggler(work);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 2);
  EXPECT_EQ(found->since, 12);
  work[2][9] += 0.8;
  EXPECT_EQ(find_straggler(work)->since, 12) << "one slow step is no begin";
}

TEST(Straggler, OneThatBecameSlowAfterTwoStepsAlwaysWas) {
  for (const std::size_t begin : {2, 3}) {
    WorkOfRanks work = quiet(4, 30, 0.1, 2);
    for (std::size_t step = begin; step < 30; ++step) work[2][step] += 1;
    const auto found = find_straggler(work);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->since.value_or(0), begin == 2 ? 0 : begin);
  }
}

TEST(Straggler, NoiseOfShortStepsBeforeItHidesNobody) {
  WorkOfRanks work = quiet(2, 28, 0.1, 8);
  for (std::size_t step = 0; step < 8; ++step) work[0][step] += 1;
  for (std::size_t step = 8; step < 28; ++step) work[1][step] += 60;
  const auto found = find_straggler(work);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->since, 8);
}

TEST(Straggler, NoiseNamesHardlyAnybody) {
  int named = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    for (const std::size_t ranks : {2, 4}) {
      EXPECT_FALSE(find_straggler(quiet(ranks, 20, 0.1, seed))) << "1 % is nobody's fault";
      named += find_straggler(quiet(ranks, 20, 1, seed)).has_value();
    }
  }
  EXPECT_LE(named, 10) << "0.5 % of 1,000, and what chance adds";
}

/// Steps of 10 and more whose excess has this spread, and goes on from one step to the next
/// (autoregressive of order 1), as that of a core that is slower for a while.
WorkOfRanks slow_for_a_while(double spread, double goes_on, std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  std::normal_distribution<double> normal(0, 1);
  WorkOfRanks out(2, std::vector<double>(50));
  for (auto& rank : out) {
    double excess = spread * normal(draw);
    for (double& each : rank) {
      excess = goes_on * excess + spread * std::sqrt(1 - goes_on * goes_on) * normal(draw);
      each = 10 + std::abs(excess);
    }
  }
  return out;
}

TEST(Straggler, ACoreThatIsSlowerForAWhileNamesHardlyAnybody) {
  int named = 0, found = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    WorkOfRanks work = slow_for_a_while(0.8, 0.9, seed);
    named += find_straggler(work).has_value();
    for (double& each : work[1]) each += 3;
    const auto straggler = find_straggler(work);
    found += straggler && straggler->rank == 1;
  }
  EXPECT_LE(named, 35) << "a test of steps as if they were independent names 121";
  EXPECT_GE(found, 495);
}

TEST(Straggler, WhatEndsWithinTheRunIsNone) {
  WorkOfRanks work = quiet(2, 40, 0.1, 7);
  for (std::size_t step = 0; step < 20; ++step) work[0][step] += 2;
  EXPECT_FALSE(find_straggler(work)) << "half of the run";
}

TEST(Straggler, RanksThatAreSlowByTurnsAreNone) {
  WorkOfRanks work = quiet(2, 20, 0.1, 3);
  for (std::size_t step = 0; step < 20; ++step) work[step % 2][step] += 5;
  EXPECT_FALSE(find_straggler(work));
}

TEST(Straggler, FewStepsAndOneRankSayNothing) {
  WorkOfRanks work = quiet(2, 8, 0.1, 4);
  for (double& each : work[1]) each += 5;
  EXPECT_FALSE(find_straggler(work)) << "a coin falls so once in 128 times";
  EXPECT_FALSE(find_straggler(quiet(1, 20, 0.1, 5)));
  EXPECT_FALSE(find_straggler(WorkOfRanks(2)));
}

TEST(Straggler, WhatDoesNotMatterIsNotNamed) {
  WorkOfRanks work = quiet(2, 100, 0.01, 6);
  for (std::size_t step = 85; step < 100; ++step) work[0][step] += 1;
  EXPECT_FALSE(find_straggler(work)) << "1.5 % of the time";
}

}  // namespace
}  // namespace ddprun
