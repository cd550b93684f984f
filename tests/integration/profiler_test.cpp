// What a profiler's timeline of a whole run shows: a library in its place notes the ranges of the
// ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
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
                                                      "step/synchronise", "step/optimizer"));
        const std::string phase = strategy == "naive" ? "step/synchronise" : "step/backward";
        EXPECT_THAT(step.enqueued, testing::ElementsAre(testing::Pair(phase, kParameters)));
        EXPECT_THAT(step.ended,
                    testing::ElementsAre(testing::Pair("step/synchronise", kParameters)));
      }
    }
  }
}

}  // namespace
}  // namespace ddprun::test
