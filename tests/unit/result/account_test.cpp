// The peak of an account, what it sends, and its way through JSON.
#include "ddprun/result/account.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ddprun/base/error.h"

namespace ddprun {
namespace {

Account some_account() {
  Account account{.ranks = 4, .rank = 1};
  account.phases = {{"setup", {}}, {"forward", {}}, {"backward", {}}};
  account.phases[0].at_peak[MemoryCategory::parameters] = 300;
  account.phases[1].at_peak[MemoryCategory::parameters] = 100;
  account.phases[1].at_peak[MemoryCategory::saved] = 50;
  account.phases[2].at_peak[MemoryCategory::backward] = 149;
  account.collectives = {{CollectiveKind::all_reduce, 400, 4, 2, 2, {1e3, 10}, {2e3, 20}},
                         {CollectiveKind::all_gather, 400, 4, 4, 1, {2e3, 20}, {2e3, 20}}};
  account.work = {3e12, 4e9};
  account.products = "bfloat16";
  account.tokens = 512;
  return account;
}

TEST(Account, HasAPeakWithAndWithoutSetUp) {
  EXPECT_EQ(some_account().peak()->phase, "setup");
  EXPECT_EQ(some_account().peak(/*steps_alone=*/true)->phase, "forward");
  EXPECT_EQ(Account().peak(), nullptr);
}

TEST(Account, SendsWhatOptimalAlgorithmsSend) {
  EXPECT_DOUBLE_EQ(some_account().wire_bytes(), 2 * 1.5 * 400 + 0.75 * 400);
}

TEST(Account, ComesBackFromJson) {
  EXPECT_EQ(account_from_json(to_json(some_account())), some_account());
  EXPECT_THROW(account_from_json({{"ranks", 1}}), Error);
}

}  // namespace
}  // namespace ddprun
