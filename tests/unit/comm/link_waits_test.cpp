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

struct Replayed {
  const char* what;
  std::vector<CollectiveRecord> records;
  double bound_ms, earliest_ms, latency_ms;
};

TEST(LinkWaits, AreWhatTheLinkTakesBeyondBackward) {  // which lasts from 10 to 20
  std::vector<CollectiveRecord> eight;
  for (int i = 0; i < 8; ++i) eight.push_back(record(12 + i, 20 + i, 21 + i));
  for (const Replayed& each :
       {Replayed{"asked for after backward, which would have hidden both",
                 {record(20, 20, 24), record(24, 24, 28)},
                 4,
                 0,
                 2},
        {"under backward, but for the second, which is done at 21",
         {record(12, 20, 21), record(19, 21, 25)},
         1,
         0,
         1},
        {"from 12 on 16 ms of work, 8 of them until 20; from 10 on", eight, 8, 6, 8},
        {"asked for after a wait of 10 ms, and needed 1 ms later",
         {record(10, 10, 20), record(20, 21, 30)},
         3,
         3,
         2},
        {"waits for several at a time count once: 4 ms of work from 10 on, needed at 11",
         {record(10, 11, 20), record(10, 12, 20)},
         3,
         3,
         2},
        {"what nobody waits for takes the link alone",
         {record(10, 0, 0), record(10, 11, 20)},
         3,
         3,
         2}}) {
    const auto waits = link_waits(each.records, kBegins, kLink);
    ASSERT_TRUE(waits) << each.what;
    EXPECT_NEAR(waits->bound_ms, each.bound_ms, 1e-9) << each.what;
    EXPECT_NEAR(waits->earliest_ms, each.earliest_ms, 1e-9) << each.what;
    EXPECT_NEAR(waits->latency_ms, each.latency_ms, 1e-9) << each.what;
  }
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
