// Times on paper: what computing hides, and what it does not.
#include "ddprun/result/account.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

/// 1e9 operations, a second at kSpeed; a collective of 1e8 bytes on 2 ranks takes 0.1 s.
Account account_of(std::vector<CollectiveAccount> collectives) {
  return {.ranks = 2,
          .collectives = std::move(collectives),
          .work = {.operations = 1e9},
          .tokens = 100};
}
CollectiveAccount all_reduce(double enqueued, double awaited, std::int64_t count = 1) {
  return {.kind = CollectiveKind::all_reduce,
          .bytes = 100'000'000,
          .ranks = 2,
          .ranks_per_host = 2,
          .count = count,
          .enqueued = {.operations = enqueued},
          .awaited = {.operations = awaited}};
}
const RankSpeed kSpeed = {.operations_per_s = 1e9, .links = {{1e9, 0}, {1e8, 0}}};

TEST(StepTime, NothingIsHiddenBehindBackward) {
  const StepTime time = step_time(account_of({all_reduce(1e9, 1e9, 3)}), kSpeed);
  EXPECT_NEAR(time.computing_s, 1, 1e-12);
  EXPECT_NEAR(time.communication_s, 0.3, 1e-12);
  EXPECT_NEAR(time.exposed_s, 0.3, 1e-12);
  EXPECT_NEAR(time.step_s(), 1.3, 1e-12);
}

TEST(StepTime, WhatBackwardIsLeftHides) {
  EXPECT_NEAR(step_time(account_of({all_reduce(0.5e9, 1e9)}), kSpeed).exposed_s, 0, 1e-12);
  EXPECT_NEAR(step_time(account_of({all_reduce(0.95e9, 1e9)}), kSpeed).exposed_s, 0.05, 1e-12);
}

TEST(StepTime, CollectivesTakeTheLinkInTurn) {
  // The second one ends at 0.9 + 0.1 + 0.1.
  const auto account = account_of({all_reduce(0.9e9, 1e9), all_reduce(0.95e9, 1e9)});
  EXPECT_NEAR(step_time(account, kSpeed).exposed_s, 0.1, 1e-12);
}

TEST(StepTime, AWaitWithinTheStepDelaysWhatFollows) {
  // The first is waited for at once, so the second is enqueued at 0.6 s and hidden.
  const auto account = account_of({all_reduce(0.5e9, 0.5e9), all_reduce(0.5e9, 1e9)});
  const StepTime time = step_time(account, kSpeed);
  EXPECT_NEAR(time.exposed_s, 0.1, 1e-12);
  EXPECT_NEAR(time.communication_s, 0.2, 1e-12);
}

TEST(StepTime, MemoryTakesTimeAtItsOwnRate) {
  Account account = account_of({all_reduce(0.5e9, 1e9)});
  account.collectives[0].awaited.bytes = account.work.bytes = 2e9;
  RankSpeed speed = kSpeed;
  speed.bytes_per_s = 1e10;
  EXPECT_NEAR(step_time(account, speed).computing_s, 1.2, 1e-12);
  EXPECT_NEAR(step_time(account, speed).exposed_s, 0, 1e-12);
  account.collectives[0].enqueued = account.work;
  EXPECT_NEAR(step_time(account, speed).step_s(), 1.3, 1e-12);
  EXPECT_NEAR(step_time(account, kSpeed).computing_s, 1, 1e-12) << "no rate of memory";
}

TEST(StepTime, HostsAreJoinedByTheirOwnLink) {
  CollectiveAccount wide = all_reduce(1e9, 1e9);
  wide.ranks_per_host = 1;
  EXPECT_NEAR(step_time(account_of({wide}), kSpeed).exposed_s, 1, 1e-12);
}

}  // namespace
}  // namespace ddprun
