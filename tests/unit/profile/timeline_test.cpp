// The trace of the last steps, event by event, and its picture, element by element.
#include <nlohmann/json.hpp>

#include "ddprun/profile/timeline_files.h"
#include "support/matchers.h"
#include "support/matches.h"

namespace ddprun {
namespace {

using nlohmann::json;

constexpr std::int64_t kMs = 1'000'000;

CollectiveRecord collective(const char* label, std::int64_t start_ms, std::int64_t end_ms) {
  return {.kind = CollectiveKind::all_reduce,
          .bytes = 64,
          .ranks = 4,
          .label = label,
          .enqueue_ns = start_ms * kMs - 500,
          .start_ns = start_ms * kMs,
          .end_ns = end_ms * kMs};
}

/// Begins at 1 ms; forward to 3, backward to 9 with the last gradient, synchronized at 10.
StepTimeline step_with(std::vector<CollectiveRecord> collectives) {
  return {.step = 3,
          .begin_ns = kMs,
          .phases = {{"forward", kMs, 3 * kMs},
                     {"backward", 3 * kMs, 9 * kMs},
                     {"synchronize", 9 * kMs, 10 * kMs},
                     {"optimizer", 10 * kMs, 11 * kMs}},
          .units = {{"layers.0", kMs, 3 * kMs}, {"layers.0", 3 * kMs, 9 * kMs}},
          .gradients_ns = {5 * kMs, 9 * kMs},
          .collectives = std::move(collectives)};
}

/// A row and the last step of each of its ranks.
struct Row {
  std::string name;
  std::vector<std::vector<StepTimeline>> ranks;
};

Row row_with(const std::string& name, const std::vector<StepTimeline>& last_steps) {
  Row row{name, {}};
  for (const StepTimeline& step : last_steps) row.ranks.push_back({step});
  return row;
}

std::vector<RowTimeline> timelines(const std::vector<Row>& rows) {
  std::vector<RowTimeline> out;
  for (const Row& row : rows) {
    out.push_back({row.name});
    for (const auto& steps : row.ranks) out.back().ranks.push_back(&steps);
  }
  return out;
}

std::string picture_of(const std::vector<Row>& rows, const std::vector<std::int64_t>& chosen = {}) {
  return timeline_svg(timelines(rows), chosen);
}

json events_of(const std::vector<Row>& rows) {
  std::string text;
  write_timeline_json(timelines(rows), [&text](std::string_view part) { text += part; });
  return json::parse(text)["traceEvents"];
}

std::vector<std::string> texts(const std::string& svg) {
  return test::groups_of(svg, "<text [^>]*>([^<]*)</text>");
}

TEST(Timeline, HasPhasesUnitsWaitsAndCollectivesInLanes) {
  StepTimeline step = step_with(
      {collective("first", 4, 6), collective("beside it", 5, 7), collective("behind", 6, 8)});
  step.collectives[2].wait_begin_ns = 9'000'000;
  step.collectives[2].wait_end_ns = 9'250'000;
  const json events = events_of({row_with("a", {step})});
  std::vector<std::string> spans;
  std::vector<double> gradients;
  for (const json& event : events) {
    if (event["ph"] == "i") gradients.push_back(event["ts"]);
    if (event["ph"] != "X") continue;
    spans.push_back(event["tid"].dump() + " " + event["name"].get<std::string>() + " " +
                    event["ts"].dump() + " " + event["dur"].dump());
  }
  EXPECT_THAT(
      spans,
      ElementsAre("0 forward 0.0 2000.0", "0 backward 2000.0 6000.0", "0 synchronize 8000.0 1000.0",
                  "0 optimizer 9000.0 1000.0", "0 layers.0 0.0 2000.0", "0 layers.0 2000.0 6000.0",
                  "1 all_reduce: first 3000.0 2000.0", "2 all_reduce: beside it 4000.0 2000.0",
                  "0 wait for all_reduce: behind 8000.0 250.0",
                  "1 all_reduce: behind 5000.0 2000.0"));
  EXPECT_THAT(gradients, ElementsAre(4000, 8000));
  EXPECT_EQ(events[0]["args"]["name"], "a, rank 0");
  const auto first = std::find_if(events.begin(), events.end(), [](const json& event) {
    return event["name"] == "all_reduce: first";
  });
  EXPECT_EQ((*first)["args"],
            json::parse(R"({"bytes": 64, "busbw, GB/s": 4.8e-5, "asked for at, us": 2999.5})"));
}

TEST(Timeline, HasEachRankOfEachRowAsAProcessAndAllItsSteps) {
  Row b = row_with("b", {step_with({}), step_with({})});
  b.ranks[1].push_back(step_with({}));
  b.ranks[1][1].phases = {{"forward", 21 * kMs, 23 * kMs}};
  std::vector<std::string> processes;
  std::vector<double> forwards;  // of the last process
  for (const json& event : events_of({row_with("a", {step_with({})}), b})) {
    if (event["name"] == "process_name") {
      processes.push_back(event["pid"].dump() + " " + event["args"]["name"].get<std::string>());
    }
    if (event["name"] == "forward" && event["pid"] == 3) forwards.push_back(event["ts"]);
  }
  EXPECT_THAT(processes, ElementsAre("1 a, rank 0", "2 b, rank 0", "3 b, rank 1"));
  EXPECT_THAT(forwards, ElementsAre(0, 20'000));
}

TEST(TimelinePicture, HasBarsWhereTheCollectivesAre) {
  StepTimeline overlap = step_with({collective("early", 4, 8)});
  overlap.collectives[0].bytes = 2'500'000;
  const std::string svg = picture_of({row_with("naive", {step_with({collective("late", 9, 10)})}),
                                      row_with("overlap", {overlap})});
  // 820 pixels from 106 on are 10 ms.
  EXPECT_THAT(test::groups_of(svg, "<rect x=\"([0-9.]+)\"[^>]*><title>backward, 6.0 ms"),
              ElementsAre("270", "270"));
  EXPECT_THAT(
      test::groups_of(svg, "<rect x=\"([0-9.]+)\"[^>]*><title>all_reduce: late, 64 B, 1.0 ms"),
      ElementsAre("762"));
  EXPECT_THAT(
      test::groups_of(svg, "<rect x=\"([0-9.]+)\"[^>]*><title>all_reduce: early, 2.50 MB, 4.0 ms"),
      ElementsAre("352"));
  EXPECT_THAT(
      test::groups_of(svg, "<rect x=\"([0-9.]+)\"[^>]* fill=\"#e15759\"><title>waits 1.0 ms"),
      ElementsAre("762", "762"));
  EXPECT_THAT(svg, HasSubstr("M434.0 ")) << "the first gradient is ready at 4 ms";
}

TEST(TimelinePicture, NamesAPhaseWhereNothingCoversIt) {
  StepTimeline step = step_with({collective("gather", 1, 2)});
  step.collectives[0].wait_begin_ns = 1 * kMs;
  step.collectives[0].wait_end_ns = 2 * kMs;
  EXPECT_THAT(test::groups_of(picture_of({row_with("fsdp", {step})}),
                              "<text x=\"([0-9.]+)\"[^>]*class=\"in on\">forward<"),
              ElementsAre("229"));
}

TEST(TimelinePicture, SaysTheSameInTheSameOrder) {
  StepTimeline longer = step_with({collective("late", 9, 10)});
  longer.phases.back().end_ns += kMs / 10;
  const std::vector<Row> rows = {row_with("naive", {longer, step_with({})})};
  const std::string svg = picture_of(rows);
  EXPECT_EQ(svg, picture_of(rows));
  std::vector<std::string> words = texts(svg);
  EXPECT_EQ(words.front(), "The last step, rank by rank");
  words.erase(words.begin(), std::find(words.begin(), words.end(), "naive"));
  EXPECT_THAT(words, ElementsAre("naive", "step 10.1 ms, exposed 1.0 ms",                    //
                                 "rank 0", "10.1 ms", "forward", "backward", "optimizer",    //
                                 "exposed 1.0 ms", "layers.0", "layers.0", "communication",  //
                                 "1.0 ms", "late, 64 B",                                     //
                                 "rank 1", "10.0 ms", "forward", "backward", "optimizer",    //
                                 "exposed 1.0 ms", "layers.0", "layers.0", "communication",  //
                                 "0", "2", "4", "6", "8", "10", "time in the step, ms"));
}

TEST(TimelinePicture, EscapesWhatIsNoText) {
  const std::string svg =
      picture_of({row_with("a<\"b\"&c", {step_with({collective("<&\">", 4, 9)})})});
  EXPECT_THAT(texts(svg), Contains("a&lt;&quot;b&quot;&amp;c"));
  EXPECT_THAT(texts(svg), Contains("&lt;&amp;&quot;&gt;, 64 B"));
  EXPECT_THAT(svg, Not(HasSubstr("<&")));
}

TEST(TimelinePicture, IsOfRowsThatCommunicateUnlessSomeAreChosen) {
  std::vector<Row> rows = {row_with("none", {step_with({})}), {"failed", {}}};
  EXPECT_THAT(picture_of(rows), IsEmpty());
  EXPECT_THAT(texts(picture_of(rows, {2, 1})),
              IsSupersetOf({"failed", "nothing was measured", "none", "rank 0"}));
  for (int i = 0; i < 10; ++i) {
    rows.push_back(row_with("s" + std::to_string(i), {step_with({collective("x", 4, 5)})}));
  }
  EXPECT_THAT(texts(picture_of(rows)), Contains("2 rows more (report.timeline chooses)"));
  EXPECT_THAT(texts(picture_of(rows)), Contains("s7"));
  EXPECT_THAT(texts(picture_of(rows)), Not(Contains("s8")));
}

TEST(TimelinePicture, StaysSmallHoweverManyCollectivesThereAre) {
  StepTimeline step = step_with({});
  for (int i = 0; i < 100'000; ++i) {
    step.collectives.push_back(
        {.bytes = 4, .label = "x", .start_ns = 3 * kMs + 60 * i, .end_ns = 3 * kMs + 60 * i + 50});
  }
  const std::string svg = picture_of({row_with("a", {step})});
  EXPECT_LT(svg.size(), 100'000U);
  const auto counts = test::groups_of(svg, "<title>([0-9]+) collectives, ");
  const auto bytes = test::groups_of(svg, "<title>[0-9]+ collectives, ([0-9]+) B");
  ASSERT_EQ(counts.size(), bytes.size());
  EXPECT_GT(counts.size(), 100U);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    EXPECT_EQ(std::stoi(bytes[i]), 4 * std::stoi(counts[i]));
  }
}

}  // namespace
}  // namespace ddprun
