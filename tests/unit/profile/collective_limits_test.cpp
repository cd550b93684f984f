// What limited a collective, by the ranks' records of it.
#include "ddprun/profile/collective_limits.h"

#include <gtest/gtest.h>

namespace ddprun::collective_limits_test {
namespace {

constexpr std::int64_t kMs = 1'000'000;

/// Of 2 MB, in milliseconds; backward lasts until 100.
CollectiveRecord record(std::int64_t asked, std::int64_t start, std::int64_t end,
                        std::int64_t wait_begin) {
  return {.kind = CollectiveKind::all_reduce,
          .bytes = 2'000'000,
          .ranks = 2,
          .label = "bucket",
          .enqueue_ns = asked * kMs,
          .start_ns = start * kMs,
          .end_ns = end * kMs,
          .wait_begin_ns = wait_begin * kMs,
          .wait_end_ns = std::max(end, wait_begin) * kMs};
}

/// A link on which 2 MB take `latency` + 2 ms.
CollectiveLimit limit(const CollectiveRecord& of_rank_0, const CollectiveRecord& of_rank_1,
                      double latency_ms, bool measured = true) {
  std::vector<StepTimeline> steps(2);
  steps[0].collectives = {of_rank_0};
  steps[1].collectives = {of_rank_1};
  for (StepTimeline& step : steps) step.phases = {{"backward", 10 * kMs, 100 * kMs}};
  LinkCosts link;
  if (measured) link = {{CollectiveKind::all_reduce, 2, latency_ms * 1e3, 1}};
  return limits_of({&steps[0], &steps[1]}, link).at(0).limit;
}

TEST(CollectiveLimits, HaveOneReasonEach) {
  const auto hidden = record(50, 50, 53, 100);
  EXPECT_EQ(limit(hidden, hidden, 1), CollectiveLimit::hidden);
  const auto mostly = record(50, 95, 105, 104);
  EXPECT_EQ(limit(mostly, mostly, 1), CollectiveLimit::contention) << "a tenth is waited for";
  const auto late = record(100, 100, 103, 100);
  EXPECT_EQ(limit(late, late, 0.5), CollectiveLimit::late);
  EXPECT_EQ(limit(late, late, 0.5, /*measured=*/false), CollectiveLimit::unknown);
  const auto queued = record(60, 100, 103, 100);
  EXPECT_EQ(limit(queued, queued, 0.5), CollectiveLimit::link) << "asked for early enough";
  EXPECT_EQ(limit(late, late, 2.5), CollectiveLimit::latency);
  const auto slow = record(100, 100, 110, 100);
  EXPECT_EQ(limit(slow, slow, 0.5), CollectiveLimit::contention);
  EXPECT_EQ(limit(record(100, 100, 130, 100), record(127, 127, 130, 127), 0.5),
            CollectiveLimit::slow_rank);
}

TEST(CollectiveLimits, TakeTheShortestOfTheRanks) {
  std::vector<StepTimeline> steps(2);
  steps[0].collectives = {record(100, 100, 130, 100)};
  steps[1].collectives = {record(127, 127, 130, 127)};
  const LimitedCollective of = limits_of({&steps[0], &steps[1]}, {}).at(0);
  EXPECT_EQ(of.exposed_ms, 3);
  EXPECT_EQ(of.time_ms, 3);
  EXPECT_EQ(of.waited_ms, 16.5);
  EXPECT_FALSE(of.link_ms);
  steps[1].collectives.clear();
  EXPECT_TRUE(limits_of({&steps[0], &steps[1]}, {}).empty()) << "not comparable";
}

}  // namespace
}  // namespace ddprun::collective_limits_test
