// What `profile:` refuses.
#include <gtest/gtest.h>

#include "support/experiment_fixture.h"

namespace ddprun {
namespace {

using test::message_of;

class ExperimentProfile : public ExperimentTest {
 protected:
  std::string error(const std::vector<std::string>& overrides,
                    const std::string& profile = "memory_snapshot") {
    return ExperimentTest::error(
        kLeast + ("model: {kernels: reference}\nprofile: {" + profile + ": true}\n"), overrides);
  }
};

TEST_F(ExperimentProfile, AStepIsRecordedBehindTheFirst) {
  for (const std::string profile : {"memory", "operators"}) {
    EXPECT_EQ(error({}, profile), "no error");
    for (const std::string steps : {"0", "1"}) {
      EXPECT_EQ(error({"train.warmup_steps=" + steps}, profile),
                message_of("a warm-up step behind the first is recorded, as the first makes the "
                           "optimizer's moments",
                           "run.yaml:6:11", "train.warmup_steps " + steps, "at least 2",
                           "raise train.warmup_steps, or remove the option"));
    }
    EXPECT_EQ(error({"train.warmup_steps=2"}, profile), "no error");
  }
}

TEST_F(ExperimentProfile, OperatorsAreOfTheCpu) {
  EXPECT_EQ(error({"world.device=cuda"}, "memory"), "no error");
  EXPECT_EQ(error({"world.device=cuda"}, "operators"),
            message_of("operators are recorded on the CPU alone", "run.yaml:6:11",
                       "world.device cuda", "world.device cpu",
                       "on a GPU Nsight Systems shows the kernels, and profile.memory "
                       "records what they compute in"));
}

TEST_F(ExperimentProfile, OneRecordAtATime) {
  EXPECT_EQ(
      error({"profile.operators=true"}, "memory"),
      message_of("operators would be timed in the step that the record of its memory slows down",
                 "--set profile.operators=true", "profile.memory and profile.operators",
                 "one of them", "run the experiment once with each"));
}

TEST_F(ExperimentProfile, ATimelineHasMeasuredStepsAlone) {
  EXPECT_EQ(error({"profile={steps: 3}", "train.steps=3"}), "no error");
  EXPECT_EQ(error({"profile={steps: 4}", "train.steps=3"}),
            message_of("profile.steps is more than the measured steps", "--set profile={steps: 4}",
                       "4", "at most train.steps 3", "lower it, or raise train.steps"));
  EXPECT_NE(error({"profile={steps: 101}", "train.steps=200"}), "no error");
}

TEST_F(ExperimentProfile, AMemorySnapshotNeedsAGpu) {
  EXPECT_EQ(error({}), message_of("profile.memory_snapshot is the history of a GPU's allocator",
                                  "run.yaml:6:11", "world.device cpu", "world.device cuda",
                                  "memory by phase is in every result, on the CPU too"));
  EXPECT_EQ(error({"world.device=cuda"}), "no error");
}

TEST_F(ExperimentProfile, AMemorySnapshotNeedsAWarmUpStep) {
  EXPECT_EQ(error({"world.device=cuda", "train.warmup_steps=0"}),
            message_of("profile.memory_snapshot records warm-up steps, and there are none",
                       "run.yaml:6:11", "train.warmup_steps 0", "at least 1",
                       "raise train.warmup_steps, or remove the option"));
}

}  // namespace
}  // namespace ddprun
