// The times of the alpha-beta model, by hand.
#include "ddprun/comm/group/link.h"

#include <gtest/gtest.h>

#include <vector>

#include "ddprun/comm/group/link_waits.h"
#include "ddprun/measure/statistics.h"

namespace ddprun {
namespace {

TEST(Link, TimesAreThoseOfTheFormulas) {
  const Link link = {.bytes_per_s = 1e9, .latency_s = 1e-6};
  const auto seconds = [&](CollectiveKind kind, int ranks, Algorithm algorithm) {
    return collective_s(kind, 8e6, ranks, link, algorithm);
  };
  using enum CollectiveKind;
  EXPECT_NEAR(seconds(all_gather, 8, Algorithm::ring), 7e-6 + 7e-3, 1e-12);
  EXPECT_NEAR(seconds(reduce_scatter, 8, Algorithm::alternating_ring), 4e-6 + 7e-3, 1e-12);
  EXPECT_NEAR(seconds(all_reduce, 8, Algorithm::ring), 2 * (7e-6 + 7e-3), 1e-12);
  EXPECT_NEAR(seconds(all_reduce, 8, Algorithm::tree), 2 * (3e-6 + 8e-3), 1e-12);
  EXPECT_NEAR(seconds(broadcast, 5, Algorithm::tree), 3e-6 + 8e-3, 1e-12);
  EXPECT_NEAR(seconds(barrier, 8, Algorithm::ring), 6e-6, 1e-12);
  for (const auto kind : {all_gather, all_reduce, broadcast, barrier}) {
    EXPECT_EQ(seconds(kind, 1, Algorithm::ring), 0);
  }
}

TEST(Link, HostsExchangeTheSlicesOfTheirRanks) {
  const Link between = {.bytes_per_s = 1e9}, within = {.bytes_per_s = 1e10};
  // 2 x 3/4 of 8 MB within a host, then 2 x 1/2 of 2 MB between two.
  EXPECT_NEAR(hierarchical_all_reduce_s(8e6, 2, 4, between, within), 1.2e-3 + 2e-3, 1e-12);
}

TEST(Link, OfSeveralHostsTheFasterWayCounts) {
  const Links links = {.within = {.bytes_per_s = 1e10}, .between = {.bytes_per_s = 1e9}};
  const auto seconds = [&](CollectiveKind kind, int ranks_per_host) {
    return collective_s(kind, 8e6, 8, ranks_per_host, links);
  };
  EXPECT_NEAR(seconds(CollectiveKind::all_reduce, 4), 1.2e-3 + 2e-3, 1e-12);
  EXPECT_NEAR(seconds(CollectiveKind::all_reduce, 8), 1.4e-3, 1e-12) << "one host";
  EXPECT_NEAR(seconds(CollectiveKind::all_reduce, 1), 14e-3, 1e-12) << "a host each";
  EXPECT_NEAR(seconds(CollectiveKind::all_gather, 4), 7e-3, 1e-12) << "none within a host first";
}

TEST(Link, SmallBuffersTakeTheTreeAndLargeOnesTheRing) {
  const Link link = {.bytes_per_s = 1e9, .latency_s = 1e-6};
  const auto seconds = [&](double bytes, int ranks) {
    return collective_s(CollectiveKind::all_reduce, bytes, ranks, link);
  };
  EXPECT_NEAR(seconds(4, 1024), 2 * (10e-6 + 4e-9), 1e-12);
  EXPECT_NEAR(seconds(8e6, 8), 2 * (7e-6 + 7e-3), 1e-12);
}

TEST(Link, IsMeasuredAgainWhileSmallCallsTakeLongerThanLargeOnes) {
  const std::vector<double> bytes = {4000, 2000, 1000};
  int measured = 0;
  // Another program slows the small ones the first time, and the large one the second time.
  const std::vector<std::vector<float>> times = {{50, 400, 400}, {900, 30, 20}};
  const auto line = rising_line(bytes, [&] { return times.at(measured++); });
  ASSERT_TRUE(line);
  EXPECT_NEAR(line->slope, 0.01, 1e-9);
  EXPECT_NEAR(line->intercept, 10, 1e-6);
  EXPECT_EQ(measured, 2);
  const auto falling = [&] { return ++measured, std::vector<float>{1, 2, 3}; };
  EXPECT_FALSE(rising_line(bytes, falling));
  EXPECT_EQ(measured, 6) << "not for ever";
}

}  // namespace
}  // namespace ddprun
