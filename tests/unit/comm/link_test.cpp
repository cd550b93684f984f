// The times of the alpha-beta model, by hand.
#include "ddprun/comm/group/link.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

constexpr Link kLink{.bytes_per_s = 1e9, .latency_s = 1e-6};

TEST(LinkSeconds, OfLargeBuffersIsTheRings) {
  // 2 x 7 messages of an eighth of 8 MB.
  EXPECT_NEAR(link_seconds(CollectiveKind::all_reduce, 8'000'000, 8, kLink), 14 * (1e-6 + 1e-3),
              1e-12);
  EXPECT_NEAR(link_seconds(CollectiveKind::all_gather, 8'000'000, 8, kLink), 7 * (1e-6 + 1e-3),
              1e-12);
  EXPECT_NEAR(link_seconds(CollectiveKind::broadcast, 8'000'000, 8, kLink), 7e-6 + 8e-3, 1e-12);
}

TEST(LinkSeconds, OfSmallBuffersIsTheTrees) {
  EXPECT_NEAR(link_seconds(CollectiveKind::all_reduce, 4, 1024, kLink), 2 * 10 * (1e-6 + 4e-9),
              1e-12);
  EXPECT_NEAR(link_seconds(CollectiveKind::barrier, 0, 5, kLink), 2 * 3 * 1e-6, 1e-12);
}

TEST(LinkSeconds, OfOneRankIsNone) {
  EXPECT_EQ(link_seconds(CollectiveKind::all_reduce, 1000, 1, kLink), 0);
}

}  // namespace
}  // namespace ddprun
