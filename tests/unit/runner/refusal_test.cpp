// A plugin that refuses the experiment's settings is heard before any rank starts.
#include <filesystem>
#include <fstream>
#include <string>

#include "runner/launch/plan.h"
#include "support/experiments.h"
#include "support/matchers.h"

namespace ddprun {
namespace {

/// Why an experiment is refused; empty if it is not.
std::string error_of(const std::string& text, const std::string& train = "") {
  const auto file = std::filesystem::path(testing::TempDir()) / "refusal_test.yaml";
  std::ofstream(file) << "train: {batch_per_rank: 2" << train << "}\n" << text;
  PlanOptions options;
  options.plugin_paths = {DDPRUN_BUILD_DIR "/tests/plugins/refusing", test::plugin_folder()};
  PlanCache cache;
  return plan_file(file, options, cache).error;
}

/// The same of the strategy "unclipped".
std::string refusal(const std::string& settings, const std::string& train = "") {
  return error_of(
      "model: {preset: tiny}\nprecision: fp32\nattention: sdpa\nstrategy: unclipped\n" + settings,
      train);
}

TEST(Refusal, AStrategySeesTheOptimizersSettings) {
  EXPECT_EQ(refusal(""), "");
  EXPECT_THAT(
      refusal("optimizer: {clip_norm: 1.0}\n"),
      AllOf(HasSubstr("strategy unclipped cannot run in this experiment"),
            HasSubstr("the mean of its own slice alone"), HasSubstr("optimizer.clip_norm 0")));
}

TEST(Refusal, AStrategySeesTheAccumulation) {
  EXPECT_THAT(refusal("", ", accumulate: 2"),
              HasSubstr("it keeps no gradients between micro-batches"));
}

TEST(Refusal, NamesWhatCouldTakeTheSameExperiment) {
  EXPECT_THAT(error_of("strategy: naive\nprecision: fp16_mixed\nattention: flash\n"
                       "model: {preset: tiny, kernels: reference}\n"),
              AllOf(HasSubstr("attention flash cannot run in this experiment"),
                    HasSubstr("; it could run with precision bf16_mixed, bf16_pure, bf16_true or "
                              "one of 2 others, or attention eager or sdpa")));
  EXPECT_THAT(error_of("strategy: naive\nprecision: bf16_true\nattention: flash\n"
                       "model: {preset: tiny, kernels: fused}\n"),
              EndsWith("; it could run with precision bf16_mixed or fp32"));
}

}  // namespace
}  // namespace ddprun
