// What a profiler's timeline of a whole run shows: a library in its place notes the ranges of the
// ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/ddprun_command.h"
#include "support/nvtx_record.h"

namespace ddprun::test {
namespace {

std::map<int, std::vector<NvtxStep>> timeline(const std::string& strategy) {
  TemporaryFolder folder;
  folder.write("run.yaml", tiny_experiment());
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
        EXPECT_THAT(step.phases, testing::ElementsAre("step", "step/forward", "step/backward",
                                                      "step/synchronize", "step/optimizer"));
        const std::string phase = strategy == "naive" ? "step/synchronize" : "step/backward";
        EXPECT_THAT(step.enqueued, testing::ElementsAre(testing::Pair(phase, kParameters)));
        EXPECT_THAT(step.ended,
                    testing::ElementsAre(testing::Pair("step/synchronize", kParameters)));
      }
    }
  }
}

TEST(Timeline, ShowsAllReducesAfterBackwardOrWithinIt) {
  for (const std::string strategy : {"naive", "overlap"}) {
    TemporaryFolder folder;
    folder.write("run.yaml", tiny_experiment());
    const CommandResult run =
        run_ddprun(folder, {"run", "run.yaml", "--set", "strategy=" + strategy});
    ASSERT_EQ(run.status, 0) << run.err;
    const auto timeline =
        nlohmann::json::parse(read_file(only_result(folder, "run") / "profile/01/timeline.json"));
    for (const int rank : {0, 1}) {
      std::map<std::string, double> ends;  // of phases
      std::vector<double> starts;          // of all-reduces
      for (const auto& event : timeline["traceEvents"]) {
        if (event["ph"] != "X" || event["pid"] != rank) continue;
        const double begin = event["ts"];
        if (event["tid"] != 0) starts.push_back(begin);
        ends.emplace(event["name"], begin + event["dur"].get<double>());
      }
      ASSERT_EQ(starts.size(), 12U);
      const bool within = starts.front() < ends.at("backward");
      EXPECT_EQ(within, strategy == "overlap") << starts.front() << " " << ends.at("backward");
      EXPECT_LT(starts.back(), ends.at("synchronize"));
      EXPECT_LE(ends.at("synchronize"), ends.at("optimizer"));
    }
  }
}

TEST(Memory, OfEachPhaseHoldsWhatTheStepNeeds) {
  for (const std::string backend : {"gloo", "shm"}) {
    TemporaryFolder folder;
    folder.write("run.yaml", tiny_experiment());
    const CommandResult run =
        run_ddprun(folder, {"run", "run.yaml", "-v", "--set", "world.backend=" + backend, "--set",
                            "train.warmup_steps=2"});  // the first step makes moments
    ASSERT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.err, testing::Not(testing::HasSubstr("arning"))) << "of unknown blocks";
    EXPECT_THAT(run.out, testing::ContainsRegex("backward +[0-9.]+ +[0-9.]+"));
    const auto result =
        nlohmann::json::parse(read_file(only_result(folder, "run") / "result.json"));
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
