// A step's waits on a link, replayed.
#include "ddprun/comm/group/link_waits.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

constexpr std::int64_t kMs = 1'000'000;
/// 1 ms and 1 ms a MB.
const LinkCosts kLink = {{CollectiveKind::all_reduce, 2, 1000, 1}};

/// Of forward and backward.
const std::vector<std::int64_t> kBegins = {1 * kMs, 10 * kMs};

/// An all-reduce of 1 MB: 2 ms on the link. Times in ms; `begin` 0: nobody waited.
CollectiveRecord record(std::int64_t asked, std::int64_t begin, std::int64_t end) {
  return {.kind = CollectiveKind::all_reduce,
          .bytes = 1'000'000,
          .ranks = 2,
          .label = "gradients",
          .enqueue_ns = asked * kMs,
          .wait_begin_ns = begin * kMs,
          .wait_end_ns = end * kMs};
}

TEST(LinkWaits, WhatIsAskedForAfterBackwardIsAllLate) {
  // Backward from 10 to 20; two all-reduces then, which took 4 ms each.
  const auto waits = link_waits({record(20, 20, 24), record(24, 24, 28)}, kBegins, kLink);
  ASSERT_TRUE(waits);
  EXPECT_NEAR(waits->bound_ms, 4, 1e-9);
  EXPECT_NEAR(waits->earliest_ms, 0, 1e-9) << "backward would have hidden both";
  EXPECT_NEAR(waits->latency_ms, 2, 1e-9);
}

TEST(LinkWaits, WhatRunsUnderBackwardIsHidden) {
  const auto waits = link_waits({record(12, 20, 21), record(19, 21, 25)}, kBegins, kLink);
  ASSERT_TRUE(waits);
  EXPECT_NEAR(waits->bound_ms, 1, 1e-9) << "the second is done at 21";
  EXPECT_NEAR(waits->earliest_ms, 0, 1e-9);
}

TEST(LinkWaits, ALinkThatIsFullDelaysWhatCameInTime) {
  std::vector<CollectiveRecord> records;
  for (int i = 0; i < 8; ++i) records.push_back(record(12 + i, 20 + i, 21 + i));
  const auto waits = link_waits(records, kBegins, kLink);
  ASSERT_TRUE(waits);
  EXPECT_NEAR(waits->bound_ms, 8, 1e-9) << "from 12 on 16 ms of work, 8 of them until 20";
  EXPECT_NEAR(waits->earliest_ms, 6, 1e-9) << "from 10 on";
}

TEST(LinkWaits, WhatIsWaitedLessMovesWhatFollows) {
  // The first was waited for 10 ms; the second is asked for right after, and needed 1 ms later.
  const auto waits = link_waits({record(10, 10, 20), record(20, 21, 30)}, kBegins, kLink);
  ASSERT_TRUE(waits);
  EXPECT_NEAR(waits->bound_ms, 2 + 1, 1e-9);
}

TEST(LinkWaits, WaitsForSeveralAtATimeCountOnce) {
  const auto waits = link_waits({record(10, 11, 20), record(10, 12, 20)}, kBegins, kLink);
  ASSERT_TRUE(waits);
  EXPECT_NEAR(waits->bound_ms, 3, 1e-9) << "4 ms of work from 10 on, needed at 11";
}

TEST(LinkWaits, WhatNobodyWaitsForTakesTheLinkAlone) {
  const auto waits = link_waits({record(10, 0, 0), record(10, 11, 20)}, kBegins, kLink);
  ASSERT_TRUE(waits);
  EXPECT_NEAR(waits->bound_ms, 3, 1e-9);
}

TEST(LinkWaits, KindsWithoutACostSayNothing) {
  CollectiveRecord gather = record(10, 11, 12);
  gather.kind = CollectiveKind::all_gather;
  EXPECT_FALSE(link_waits({record(10, 11, 12), gather}, kBegins, kLink));
  CollectiveRecord of_subgroup = record(10, 11, 12);
  of_subgroup.ranks = 4;
  EXPECT_FALSE(link_waits({of_subgroup}, kBegins, kLink));
  EXPECT_FALSE(link_waits({record(10, 0, 0)}, kBegins, kLink)) << "who waited, and when?";
}

}  // namespace
}  // namespace ddprun
