// The trace of a step, event by event.
#include "runner/report/timeline_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/report_rows.h"

namespace ddprun::test {
namespace {

using nlohmann::json;
using testing::ElementsAre;

TEST(Timeline, HasPhasesWaitsAndCollectivesInLanes) {
  Row row = known_row("strategy=a");
  row.ranks.resize(1);
  RankResult& rank = row.ranks[0];
  rank.last_step_begin_ns = 1'000'000;
  rank.last_step_phases = {{"forward", 1'000'000, 3'000'000}, {"backward", 3'000'000, 9'000'000}};
  const auto collective = [](const char* label, std::int64_t start, std::int64_t end) {
    return CollectiveRecord{.kind = CollectiveKind::all_reduce,
                            .bytes = 64,
                            .ranks = 2,
                            .label = label,
                            .enqueue_ns = start - 500,
                            .start_ns = start,
                            .end_ns = end};
  };
  rank.last_step = {collective("first", 4'000'000, 6'000'000),
                    collective("beside it", 5'000'000, 7'000'000),
                    collective("behind", 6'000'000, 8'000'000)};
  rank.last_step[2].wait_begin_ns = 9'000'000;
  rank.last_step[2].wait_end_ns = 9'250'000;

  std::vector<std::string> spans;
  const json events = json::parse(timeline_json(row))["traceEvents"];
  for (const json& event : events) {
    if (event["ph"] != "X") continue;
    spans.push_back(event["tid"].dump() + " " + event["name"].get<std::string>() + " " +
                    event["ts"].dump() + " " + event["dur"].dump());
  }
  EXPECT_THAT(spans, ElementsAre("0 forward 0.0 2000.0", "0 backward 2000.0 6000.0",
                                 "1 all_reduce: first 3000.0 2000.0",
                                 "2 all_reduce: beside it 4000.0 2000.0",
                                 "0 wait for all_reduce: behind 8000.0 250.0",
                                 "1 all_reduce: behind 5000.0 2000.0"));
  EXPECT_EQ(events[0]["args"]["name"], "rank 0");
  EXPECT_EQ(events[4]["args"]["name"], "communication");
  EXPECT_EQ(events[5]["args"],
            json::parse(R"({"bytes": 64, "busbw, GB/s": 3.2e-5, "asked for at, us": 2999.5})"));
}

}  // namespace
}  // namespace ddprun::test
