// Waits for collectives, parted into communication and skew.
#include "ddprun/experiments/training/skew.h"

#include <gtest/gtest.h>

#include "ddprun/experiments/training/training.h"
#include "support/thread_ranks.h"

namespace ddprun::skew_test {
namespace {

constexpr std::int64_t kMs = 1'000'000;

/// A collective whose result came at `end_ms`. The rank joined it, and began to wait, `before_ms`
/// earlier.
CollectiveRecord waited(double end_ms, double before_ms) {
  const auto end_ns = static_cast<std::int64_t>(end_ms * kMs);
  const auto begin_ns = end_ns - static_cast<std::int64_t>(before_ms * kMs);
  return {.kind = CollectiveKind::all_reduce,
          .bytes = 2'000'000,
          .ranks = 2,
          .label = "gradients",
          .start_ns = begin_ns,
          .end_ns = end_ns,
          .wait_begin_ns = begin_ns,
          .wait_end_ns = end_ns};
}

/// Of each rank: what becomes of a step that took `synchronize_ms` for `records`.
std::vector<Sample> settled(const std::vector<std::vector<CollectiveRecord>>& records,
                            const std::vector<double>& synchronize_ms) {
  std::vector<Sample> samples(records.size(), Sample(training()));
  test::run_ranks(static_cast<int>(records.size()), [&](ProcessGroup& group) {
    const int rank = group.rank();
    std::vector<Sample> own(1, Sample(training()));
    own[0][training().synchronize_ms] = synchronize_ms[rank];
    SkewAccount account;
    account.add(records[rank]);
    account.settle(own, group);
    samples[rank] = own[0];
  });
  return samples;
}

TEST(Skew, RanksThatAreLateByTurnsExposeNoMore) {
  const auto samples =
      settled({{waited(20, 11), waited(40, 1)}, {waited(20, 1), waited(40, 6)}}, {12.5, 7.25});
  for (const Sample& sample : samples) {
    EXPECT_NEAR(sample[training().exposed_ms], 1 + 1 + 0.25, 1e-5) << "and 0.25 of copies";
    EXPECT_NEAR(sample[training().busbw_gb_per_s], 2.0, 1e-5) << "4 MB in 2 ms";
  }
  EXPECT_NEAR(samples[0][training().skew_ms], 12.5 - 2.25, 1e-5);
  EXPECT_NEAR(samples[1][training().skew_ms], 7.25 - 2.25, 1e-5);
}

TEST(Skew, CollectivesSideBySideCountOnceInTheBandwidth) {
  const auto samples =
      settled({{waited(20, 4), waited(20, 4)}, {waited(20, 4), waited(20, 4)}}, {4, 4});
  EXPECT_NEAR(samples[0][training().busbw_gb_per_s], 1.0, 1e-5) << "4 MB in 4 ms";
}

TEST(Skew, WithoutCollectivesThereIsNoBandwidth) {
  const auto samples = settled({{}, {}}, {0, 0});
  EXPECT_EQ(samples[0][training().exposed_ms], 0);
  EXPECT_FALSE(samples[0].find(training().busbw_gb_per_s));
}

TEST(Skew, RanksWithOtherCollectivesAreComparedByStep) {
  const auto samples = settled({{waited(20, 11)}, {waited(20, 1), waited(40, 6)}}, {12, 7});
  EXPECT_NEAR(samples[0][training().exposed_ms], 7, 1e-5);
  EXPECT_NEAR(samples[0][training().skew_ms], 5, 1e-5);
}

TEST(Skew, OneRankWaitsForNobody) {
  const auto samples = settled({{waited(20, 3)}}, {4});
  EXPECT_NEAR(samples[0][training().exposed_ms], 4, 1e-5);
  EXPECT_NEAR(samples[0][training().skew_ms], 0, 1e-5);
}

TEST(Skew, AWaitOutsideOfItsCollectiveHidesNoOther) {
  CollectiveRecord early = waited(20, 10), late = waited(30, 4);
  early.wait_begin_ns -= 3 * kMs;  // it began later than the rank waited for it
  early.wait_end_ns += 2 * kMs;    // and the rank woke up later than it ended
  late.wait_begin_ns += 3 * kMs;
  EXPECT_EQ(waited_between({early, late}, 0, 40 * kMs), 16 * kMs);
  EXPECT_EQ(overlapped_between({early, late}, 0, 40 * kMs), 3 * kMs) << "of 14";
  EXPECT_EQ(overlapped_between({early, late}, 0, 28 * kMs), 2 * kMs);
  EXPECT_EQ(overlapped_between({early}, 0, 40 * kMs), 0);
}

}  // namespace
}  // namespace ddprun::skew_test
