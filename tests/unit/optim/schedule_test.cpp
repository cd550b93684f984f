// The learning rate of each step: warm-up, cosine, constant.
#include <gtest/gtest.h>

#include <cmath>

#include "ddprun/base/choice.h"
#include "ddprun/optim/optimizer.h"

namespace ddprun {
namespace {

OptimizerConfig with(Schedule name, std::int64_t warmup_steps) {
  OptimizerConfig config;
  config.lr = 1.0;
  config.schedule = {.name = name, .warmup_steps = warmup_steps, .min_lr = 0.1};
  return config;
}

TEST(LearningRate, Constant) {
  EXPECT_EQ(learning_rate(with(Schedule::constant, 0), 0, 10), 1.0);
  EXPECT_EQ(learning_rate(with(Schedule::constant, 0), 99, 10), 1.0);
}

TEST(LearningRate, WarmsUpFromTheFirstStepOn) {
  for (const Schedule name : {Schedule::constant, Schedule::cosine}) {
    const OptimizerConfig config = with(name, 4);
    const double expected[] = {0.25, 0.5, 0.75, 1.0, 1.0};
    for (int step = 0; step < 5; ++step) {
      EXPECT_DOUBLE_EQ(learning_rate(config, step, 24), expected[step])
          << name_of(name) << " " << step;
    }
  }
}

TEST(LearningRate, CosineFallsToTheMinimumAndStays) {
  const OptimizerConfig config = with(Schedule::cosine, 4);
  EXPECT_NEAR(learning_rate(config, 14, 24), 0.55, 1e-15);  // half-way
  EXPECT_NEAR(learning_rate(config, 9, 24), 0.1 + 0.9 * 0.5 * (1 + std::sqrt(0.5)), 1e-15);
  EXPECT_EQ(learning_rate(config, 24, 24), 0.1);
  EXPECT_EQ(learning_rate(config, 1000, 24), 0.1);
  for (int step = 4; step < 30; ++step) {
    EXPECT_GE(learning_rate(config, step, 24), learning_rate(config, step + 1, 24)) << step;
  }
}

TEST(LearningRate, RunShorterThanItsWarmUp) {
  const OptimizerConfig config = with(Schedule::cosine, 10);
  EXPECT_DOUBLE_EQ(learning_rate(config, 4, 5), 0.5);
  EXPECT_EQ(learning_rate(config, 10, 5), 0.1);
  EXPECT_EQ(learning_rate(config, 10, 10), 0.1);
}

}  // namespace
}  // namespace ddprun
