// What ranks of a joined launch called, compared when their run has failed.
#include "runner/launch/joined_failure.h"

#include "support/matchers.h"

namespace ddprun {
namespace {

FailureReport late(std::vector<CollectiveCall> calls) {
  return {FailureKind::timeout, "timed out", {"in backward of step 3", std::move(calls)}};
}

const CollectiveCall kFirst = make_call(1, "all_reduce", 64, "a");
const CollectiveCall kSecond = make_call(2, "all_reduce", 64, "b");
const CollectiveCall kOther = make_call(2, "all_reduce", 64, "c");
const CollectiveCall kLonger = make_call(2, "all_reduce", 128, "b");

TEST(DifferentCalls, TheFirstOneIsNamedOnBothRanks) {
  for (const CollectiveCall& other : {kOther, kLonger}) {
    const auto reason =
        different_calls({late({kFirst, kSecond}), late({kFirst, kSecond}), late({kFirst, other})});
    ASSERT_TRUE(reason.has_value());
    EXPECT_THAT(*reason,
                AllOf(HasSubstr("the ranks called different collectives"),
                      HasSubstr("call 2 of each, in backward of step 3 of rank 0"),
                      HasSubstr("rank 0: all_reduce 'b' of 64 bytes; rank 2: " + other.text())));
  }
}

TEST(DifferentCalls, AShorterRecordIsNoDifference) {
  EXPECT_FALSE(different_calls({late({kFirst, kSecond}), late({kFirst})}).has_value());
  EXPECT_FALSE(different_calls({late({kSecond}), late({kFirst, kSecond})}).has_value());
  EXPECT_FALSE(different_calls({late({}), late({kFirst})}).has_value());
}

TEST(DifferentCalls, ARanksOwnFailureExplainsThem) {
  FailureReport own = late({kFirst, kOther});
  own.kind = FailureKind::other;
  EXPECT_FALSE(different_calls({late({kFirst, kSecond}), own}).has_value());
}

}  // namespace
}  // namespace ddprun
