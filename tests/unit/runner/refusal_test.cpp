// A plugin that refuses the experiment's settings is heard before any rank starts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "runner/launch/plan.h"
#include "support/experiments.h"

namespace ddprun {
namespace {

using testing::HasSubstr;

/// Why an experiment of the strategy "unclipped" is refused; empty if it is not.
std::string refusal(const std::string& settings) {
  const auto file = std::filesystem::path(testing::TempDir()) / "refusal_test.yaml";
  std::ofstream(file) << "model: {preset: tiny}\nprecision: fp32\nattention: sdpa\n"
                         "strategy: unclipped\n"
                      << settings;
  PlanOptions options;
  options.plugin_paths = {DDPRUN_BUILD_DIR "/tests/plugins/refusing", test::plugin_folder()};
  PlanCache cache;
  return plan_file(file, options, cache).error;
}

TEST(Refusal, AStrategySeesTheOptimizersSettings) {
  EXPECT_EQ(refusal("train: {batch_per_rank: 2}\n"), "");
  EXPECT_THAT(refusal("train: {batch_per_rank: 2}\noptimizer: {clip_norm: 1.0}\n"),
              testing::AllOf(HasSubstr("strategy unclipped cannot run in this experiment"),
                             HasSubstr("the mean of its own slice alone"),
                             HasSubstr("optimizer.clip_norm 0")));
}

TEST(Refusal, AStrategySeesTheAccumulation) {
  EXPECT_THAT(refusal("train: {batch_per_rank: 2, accumulate: 2}\n"),
              HasSubstr("it keeps no gradients between micro-batches"));
}

}  // namespace
}  // namespace ddprun
