// What `profile:` refuses.
#include <gtest/gtest.h>

#include "ddprun/base/error.h"
#include "ddprun/config/experiment.h"
#include "ddprun/experiments/kinds.h"
#include "support/ddprun_command.h"

namespace ddprun::test {
namespace {

constexpr const char* kRun =
    "strategy: s\nprecision: p\nattention: a\ntrain: {global_batch: 8}\n"
    "model: {kernels: reference}\n";

/// The error's text, the file by its name alone; empty if there is none.
std::string error(const std::vector<std::string>& overrides,
                  const std::string& profile = "memory_snapshot") {
  const TemporaryFolder folder("run.yaml", kRun + ("profile: {" + profile + ": true}\n"));
  try {
    load_experiments(folder.path() / "run.yaml", overrides, experiment_kinds());
  } catch (const ConfigError& error) {
    std::string text = error.what();
    const std::string prefix = folder.path().string() + "/";
    const std::size_t at = text.find(prefix);
    return at == std::string::npos ? text : text.erase(at, prefix.size());
  }
  return {};
}

TEST(ExperimentProfile, AStepIsRecordedBehindTheFirst) {
  for (const std::string profile : {"memory", "operators"}) {
    EXPECT_EQ(error({}, profile), "");
    for (const std::string steps : {"0", "1"}) {
      EXPECT_EQ(error({"train.warmup_steps=" + steps}, profile),
                "a warm-up step behind the first is recorded, as the first makes the optimizer's "
                "moments\n"
                "  where: run.yaml:6:11\n"
                "  got: train.warmup_steps " +
                    steps +
                    "\n"
                    "  expected: at least 2\n"
                    "  hint: raise train.warmup_steps, or remove the option");
    }
    EXPECT_EQ(error({"train.warmup_steps=2"}, profile), "");
  }
}

TEST(ExperimentProfile, OperatorsAreOfTheCpu) {
  EXPECT_EQ(error({"world.device=cuda"}, "memory"), "");
  EXPECT_EQ(error({"world.device=cuda"}, "operators"),
            "operators are recorded on the CPU alone\n"
            "  where: run.yaml:6:11\n"
            "  got: world.device cuda\n"
            "  expected: world.device cpu\n"
            "  hint: on a GPU Nsight Systems shows the kernels, and profile.memory records what "
            "they compute in");
}

TEST(ExperimentProfile, OneRecordAtATime) {
  EXPECT_EQ(error({"profile.operators=true"}, "memory"),
            "operators would be timed in the step that the record of its memory slows down\n"
            "  where: --set profile.operators=true\n"
            "  got: profile.memory and profile.operators\n"
            "  expected: one of them\n"
            "  hint: run the experiment once with each");
}

TEST(ExperimentProfile, ATimelineHasMeasuredStepsAlone) {
  EXPECT_EQ(error({"profile={steps: 3}", "train.steps=3"}), "");
  EXPECT_EQ(error({"profile={steps: 4}", "train.steps=3"}),
            "profile.steps is more than the measured steps\n"
            "  where: --set profile={steps: 4}\n"
            "  got: 4\n"
            "  expected: at most train.steps 3\n"
            "  hint: lower it, or raise train.steps");
  EXPECT_NE(error({"profile={steps: 101}", "train.steps=200"}), "");
}

TEST(ExperimentProfile, AMemorySnapshotNeedsAGpu) {
  EXPECT_EQ(error({}),
            "profile.memory_snapshot is the history of a GPU's allocator\n"
            "  where: run.yaml:6:11\n"
            "  got: world.device cpu\n"
            "  expected: world.device cuda\n"
            "  hint: memory by phase is in every result, on the CPU too");
  EXPECT_EQ(error({"world.device=cuda"}), "");
}

TEST(ExperimentProfile, AMemorySnapshotNeedsAWarmUpStep) {
  EXPECT_EQ(error({"world.device=cuda", "train.warmup_steps=0"}),
            "profile.memory_snapshot records warm-up steps, and there are none\n"
            "  where: run.yaml:6:11\n"
            "  got: train.warmup_steps 0\n"
            "  expected: at least 1\n"
            "  hint: raise train.warmup_steps, or remove the option");
}

}  // namespace
}  // namespace ddprun::test
