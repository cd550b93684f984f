// What a profiler's timeline of a whole run shows: a library in its place notes the ranges of the
// ranks.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "ddprun/base/clock.h"
#include "ddprun/profile/step_timeline.h"
#include "ddprun/result/plain_json.h"
#include "support/ddprun_command.h"
#include "support/nvtx_record.h"

namespace ddprun::test {
namespace {

std::map<int, std::vector<NvtxStep>> timeline(const std::string& strategy) {
  TemporaryFolder folder("run.yaml", tiny_experiment());
  const std::string record = folder.path() / "record";
  DdprunProcess run(
      folder, {"run", "run.yaml", "--set", "strategy=" + strategy},
      {std::string("NVTX_INJECTION64_PATH=") + kNvtxRecorder, "NVTX_RECORDER_FILE=" + record});
  EXPECT_EQ(run.wait(), 0) << run.err();
  return nvtx_steps(read_nvtx_record(record));
}

TEST(Profiler, SeesAllReducesAfterBackwardOrWithinIt) {
  constexpr std::size_t kSteps = 4, kParameters = 12;
  for (const std::string strategy : {"naive", "overlap"}) {
    const auto ranks = timeline(strategy);
    ASSERT_EQ(ranks.size(), 2U) << strategy;
    for (const auto& [process, steps] : ranks) {
      ASSERT_EQ(steps.size(), kSteps);
      for (const NvtxStep& step : steps) {
        EXPECT_THAT(step.phases, ElementsAre("step", "step/forward", "step/backward",
                                             "step/synchronize", "step/optimizer"));
        const std::string phase = strategy == "naive" ? "step/synchronize" : "step/backward";
        EXPECT_THAT(step.enqueued, ElementsAre(testing::Pair(phase, kParameters)));
        EXPECT_THAT(step.ended, ElementsAre(testing::Pair("step/synchronize", kParameters)));
      }
    }
  }
}

/// The spans and marks of one process: begins and ends by name, microseconds.
struct Trace {
  std::map<std::string, double> ends;  // of the first span of each name
  std::vector<double> starts;          // of all-reduces
  std::vector<double> gradients;       // when they were ready
  int forwards = 0, units_outside = 0;
};

Trace trace_of(const json& timeline, int process) {
  Trace out;
  for (const auto& event : timeline["traceEvents"]) {
    if (event["pid"] != process) continue;
    if (event["ph"] == "i") out.gradients.push_back(event["ts"]);
    if (event["ph"] != "X") continue;
    const double begin = event["ts"], end = begin + event["dur"].get<double>();
    const std::string name = event["name"];
    if (event["tid"] != 0) out.starts.push_back(begin);
    out.ends.emplace(name, end);
    out.forwards += name == "forward" ? 1 : 0;
    out.units_outside += name == "layers.0" && end > out.ends.at("backward") ? 1 : 0;
  }
  return out;
}

TEST(Timeline, ShowsAllReducesAfterBackwardOrWithinIt) {
  constexpr std::size_t kParameters = 12;
  TemporaryFolder folder("run.yaml", tiny_experiment("sweep: {strategy: [naive, overlap]}\n"));
  // Shared memory would leave gradients as small as these until backward has ended.
  const CommandResult run = must_run(folder, {"run", "run.yaml", "--set", "world.backend=gloo"});
  const auto result = only_result(folder, "run");
  const auto timeline = json::parse(read_file(result / "timeline.json"));
  for (const int process : {1, 2, 3, 4}) {  // a row has two ranks
    const Trace trace = trace_of(timeline, process);
    ASSERT_EQ(trace.starts.size(), kParameters);
    EXPECT_EQ(trace.starts.front() < trace.ends.at("backward"), process > 2) << process;
    EXPECT_LT(trace.starts.back(), trace.ends.at("synchronize"));
    EXPECT_LE(trace.ends.at("synchronize"), trace.ends.at("optimizer"));
    ASSERT_EQ(trace.gradients.size(), kParameters);
    EXPECT_TRUE(std::is_sorted(trace.gradients.begin(), trace.gradients.end()));
    EXPECT_GT(trace.gradients.front(), trace.ends.at("forward"));
    EXPECT_NEAR(trace.gradients.back(), trace.ends.at("backward"), 0.01) << "the same mark";
    EXPECT_EQ(trace.units_outside, 0);
    EXPECT_TRUE(trace.ends.contains("head"));
  }
  const std::string picture = read_file(result / "timeline.svg");
  EXPECT_THAT(picture, HasSubstr(">naive</text>"));
  EXPECT_THAT(picture, HasSubstr("<title>all_reduce: lm_head.weight, "));
}

TEST(Timeline, HasAsManyStepsAsAreAskedFor) {
  TemporaryFolder folder("run.yaml", tiny_experiment("profile: {steps: 3}\n"));
  const CommandResult run = must_run(folder, {"run", "run.yaml", "--set", "strategy=fsdp"});
  const auto result = only_result(folder, "run");
  const auto timeline = json::parse(read_file(result / "timeline.json"));
  EXPECT_EQ(trace_of(timeline, 1).forwards, 3);
  // The red of the picture is the exposed communication of the table, in each step.
  const json row = rows_of(folder, "run")[0];
  std::vector<std::vector<StepTimeline>> ranks;
  for (const auto& rank : row["ranks"]) ranks.push_back(rank["timeline"]);
  for (std::size_t step = 0; step < 3; ++step) {
    const std::vector<Waits> waits = waits_of({&ranks[0][step], &ranks[1][step]});
    const auto& samples = row["ranks"][0]["samples"];
    const double exposed_ms = samples["exposed_ms"][ranks[0][step].step];
    EXPECT_NEAR(to_ms(union_length(waits[0].exposed)), exposed_ms, 0.05 * exposed_ms) << step;
  }
}

TEST(Memory, OfEachPhaseHoldsWhatTheStepNeeds) {
  for (const std::string backend : {"gloo", "shm"}) {
    TemporaryFolder folder("run.yaml", tiny_experiment());
    const CommandResult run =
        run_ddprun(folder, {"run", "run.yaml", "-v", "--set", "world.backend=" + backend, "--set",
                            "train.warmup_steps=2"});  // the first step makes moments
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.err, Not(HasSubstr("arning"))) << "of unknown blocks";
    EXPECT_THAT(run.out, ContainsRegex("backward +[0-9.]+ +[0-9.]+"));
    const auto result = result_of(folder, "run");
    const auto& row = result["rows"][0];
    // One all-reduce of all gradients, so its payload is what one buffer takes.
    const double buffer = row["statistics"]["bytes"]["mean"];
    for (const auto& rank : row["ranks"]) {
      std::map<std::string, double> allocated, peak;
      for (const auto& each : rank["memory_phases"]) {
        allocated[each["phase"]] = each["allocated_bytes"];
        peak[each["phase"]] = each["peak_allocated_bytes"];
      }
      ASSERT_EQ(allocated.size(), 5U);
      EXPECT_NEAR(allocated["setup"], 2 * buffer, buffer / 10) << "parameters and gradients";
      EXPECT_NEAR(allocated["optimizer"], 4 * buffer, buffer / 10) << "and AdamW's two moments";
      EXPECT_GT(allocated["forward"], allocated["optimizer"]) << "activations are kept";
      for (const auto& [phase, bytes] : allocated) EXPECT_GE(peak[phase], bytes) << phase;
    }
  }
}

}  // namespace
}  // namespace ddprun::test
