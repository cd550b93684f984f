// Plans of ranks compared: every key that differs is named with the values of each rank.
#include "runner/launch/launch_agreement.h"

#include <nlohmann/json.hpp>

#include "support/matchers.h"

namespace ddprun {
namespace {

using nlohmann::json;

TEST(ComparePlans, EqualPlansAreRight) {
  const std::string plan = json{{"train.steps", 3}, {"strategy", "flat"}}.dump();
  EXPECT_EQ(compare_plans({plan, plan, plan}).what, "");
}

TEST(ComparePlans, NamesTheKeysAndTheValuesOfEachRank) {
  const ErrorText text = compare_plans(
      {json{{"train.steps", 3}, {"strategy", "flat"}, {"strategy.bucket_mb", 5}}.dump(),
       json{{"train.steps", 3}, {"strategy", "naive"}}.dump(),
       json{{"train.steps", 4}, {"strategy", "naive"}}.dump()});
  EXPECT_EQ(text.what, "the ranks of this launch would run different experiments");
  EXPECT_EQ(text.got,
            "strategy = \"flat\" on rank 0; \"naive\" on rank 1, 2\n"
            "       strategy.bucket_mb = 5 on rank 0; nothing on rank 1, 2\n"
            "       train.steps = 3 on rank 0, 1; 4 on rank 2");
}

TEST(ComparePlans, CountsWhatItDoesNotShow) {
  json one;
  json other;
  for (int key = 0; key < 30; ++key) {
    one["key" + std::to_string(key)] = 1;
    other["key" + std::to_string(key)] = 2;
  }
  EXPECT_THAT(compare_plans({one.dump(), other.dump()}).got, HasSubstr("and 22 more"));
}

TEST(ComparePlans, ATextOfSomebodyElseIsAnErrorWithItsRank) {
  for (const char* text : {"", "agreed", "[1, 2]", "{\"a\": "}) {
    const ErrorText error = test::error_text_of<CommError>([&] {
      compare_plans({plan_text("run", {}), text});
    });
    EXPECT_EQ(error.what, "a text in the store of this run is not ddprun's") << text;
    EXPECT_THAT(error.where, HasSubstr("rank 1 of 2"));
  }
}

TEST(BoundRanks, AreThoseOfHostsOnWhichNoCoreIsShared) {
  using Bound = std::vector<bool>;
  EXPECT_EQ(bound_ranks({{"a", {0, 1}}, {"a", {2, 3}}, {"b", {0}}}), (Bound{true, true, true}));
  EXPECT_EQ(bound_ranks({{"a", {0, 1}}, {"a", {2, 3}}, {"b", {0, 1}}, {"b", {1, 2}}, {"b", {3}}}),
            (Bound{true, true, false, false, false}));
  EXPECT_EQ(bound_ranks({{"a", {0, 1}}, {"a", {0, 1}}}), (Bound{false, false}));
}

TEST(ComparePlans, RanksRunTheirRowsEquallyOften) {
  PlannedFile once, thrice;
  thrice.report.repeats = 3;
  EXPECT_THAT(compare_plans({plan_text("run", {once}), plan_text("run", {thrice})}).got,
              HasSubstr("report.repeats = 1 on rank 0; 3 on rank 1"));
  PlannedFile alone;
  alone.report.aa = false;
  for (PlannedFile* file : {&once, &alone}) file->name = "second";
  thrice.name = "first";
  EXPECT_THAT(
      compare_plans({plan_text("run", {thrice, once}), plan_text("run", {thrice, alone})}).got,
      HasSubstr("second: report.aa = true on rank 0; false on rank 1"));
}

}  // namespace
}  // namespace ddprun
