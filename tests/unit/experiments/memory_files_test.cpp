// The files of a recorded step's memory: a picture that stays small, and the largest blocks by
// name.
#include "ddprun/profile/memory_files.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/matchers.h"
#include "support/matches.h"

namespace ddprun::memory_files_test {
namespace {

/// A forward of 1 ms with that many blocks of 1 to 5 MB, one behind the other, over 8 MB of
/// moments. One block more is larger, and has a name that is no XML and no CSV.
MemoryAccount account_of(int blocks) {
  RecordedMemory recorded;
  recorded.blocks.push_back({.bytes = 8'000'000, .scope = MemoryCategory::moments});
  const auto add = [&](std::int64_t bytes, const char* operation) {
    const int number = static_cast<int>(recorded.blocks.size());
    const int event = static_cast<int>(recorded.events.size());
    const std::int64_t time_ns = 1'000'000L * number / (blocks + 2);
    recorded.blocks.push_back({.bytes = bytes,
                               .born_ns = time_ns,
                               .died_ns = time_ns + 1,
                               .born_event = event,
                               .died_event = event + 1,
                               .born_in = 1,
                               .died_in = 1,
                               .place = {.unit = "layers", .index = 0},
                               .operation = operation,
                               .shape = "2 x 3"});
    recorded.events.push_back({time_ns, number, true});
    recorded.events.push_back({time_ns + 1, number, false});
  };
  add(100, "norm");
  add(9'000'000, "a,<b>");
  for (int i = 0; i < blocks; ++i) add(1'000'000 * (1 + i % 5), "w2");
  const auto events = static_cast<int>(recorded.events.size());
  recorded.spans = {{.phase = Phase::step, .end_ns = 1'000'000, .end_event = events},
                    {.phase = Phase::forward, .end_ns = 1'000'000, .end_event = events}};
  return {std::move(recorded), ResidentMemory{}, {{.name = "end", .event = events}}};
}

TEST(MemoryPicture, NamesPhasesCategoriesAndThePeak) {
  const std::string svg = memory_svg(account_of(10));
  EXPECT_THAT(svg, StartsWith("<svg xmlns="));
  for (const char* words : {">forward<", ">moments 8.00<", ">temporary in forward 9.00<",
                            ">peak 17.00 MB, forward<", ">time in the step, ms<", ">MB<"}) {
    EXPECT_THAT(svg, HasSubstr(words));
  }
  EXPECT_THAT(svg, Not(HasSubstr("gradients"))) << "there are none";
}

TEST(MemoryPicture, StaysSmallHoweverManyEventsThereAre) {
  const std::string few = memory_svg(account_of(2'000)), many = memory_svg(account_of(50'000));
  EXPECT_LT(many.size(), 100'000u);
  EXPECT_LT(many.size(), few.size() * 2);
  EXPECT_THAT(many, HasSubstr("peak 17.00 MB")) << "though it lasts a billionth of a second";
  double highest = 1e9;  // of the corners of the areas, downwards
  for (const std::string& y : test::groups_of(many, ",([0-9.]+) ")) {
    highest = std::min(highest, std::stod(y));
  }
  EXPECT_NEAR(highest, std::stod(test::groups_of(many, "<circle [^>]*cy=\"([0-9.]+)\"")[0]), 0.1);
}

TEST(MemoryFiles, ListTheLargestBlocksAndOneOfEachOperation) {
  const std::string csv = allocations_csv(account_of(100));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 50 + 1) << "the norm is the smallest";
  EXPECT_THAT(csv, HasSubstr("\n9000000,temporary in forward,forward,layers.0,\"a,<b>\",2 x 3,"));
  EXPECT_THAT(csv, HasSubstr("\n100,temporary in forward,forward,layers.0,norm,"));
}

TEST(MemoryFiles, HaveACounterTrackACategory) {
  const auto timeline = nlohmann::json::parse(memory_timeline_json(account_of(3)));
  double highest = 0;
  for (const auto& event : timeline["traceEvents"]) {
    if (event["ph"] != "C" || event["name"] != "temporary in forward") continue;
    highest = std::max(highest, event["args"]["MB"].get<double>());
  }
  EXPECT_EQ(highest, 9);
}

}  // namespace
}  // namespace ddprun::memory_files_test
