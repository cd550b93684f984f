// Held-out loss: when it is computed, and on which samples.
#include "ddprun/experiments/training/evaluation.h"

#include <gtest/gtest.h>

#include <numbers>

#include "ddprun/tokenizer/train_tokenizer.h"
#include "support/experiments.h"
#include "support/plugin_registry.h"
#include "support/temporary_folder.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

using test::registry;

Experiment experiment_of(int ranks, const std::string& strategy = "flat") {
  Experiment experiment = test::small_experiment(ranks);
  experiment.plugin(PluginKind::strategy).name = strategy;
  training(experiment).train.warmup_steps = 2;
  training(experiment).train.steps = 5;
  training(experiment).train.eval = {.every = 3, .batches = 2};
  return experiment;
}

/// After each step the mean of the ranks' losses; -1: there was no evaluation.
std::vector<double> losses_of(const Experiment& experiment) {
  const int ranks = static_cast<int>(experiment.world.size);
  const auto all = test::of_ranks(ranks, [&](ProcessGroup& group) {
    Trainer trainer(experiment, make_plugins(registry(), experiment), group);
    Evaluation evaluation(experiment, trainer, group);
    std::vector<double> losses;
    for (int step = 0; step < 7; ++step) {
      trainer.step(step);
      losses.push_back(evaluation.after_step(step).value_or(-1));
    }
    return losses;
  });
  std::vector<double> mean(all[0].size());
  for (const auto& own : all) {
    for (std::size_t i = 0; i < own.size(); ++i) mean[i] += own[i] / ranks;
  }
  return mean;
}

TEST(Evaluation, IsTheSameForAnyNumberOfRanksAndAccumulation) {
  const auto expected = losses_of(experiment_of(1));
  for (const int with : {2, 5, 6}) EXPECT_NEAR(expected[with], 4.3, 0.5) << with;  // ln 64 is 4.16
  for (const char* strategy : {"flat", "fsdp"}) {
    for (const int ranks : {2, 4}) {
      const auto losses = losses_of(experiment_of(ranks, strategy));
      for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-5);
    }
  }
  Experiment accumulated = experiment_of(2);
  training(accumulated).train.accumulate = 2;
  const auto losses = losses_of(accumulated);
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-5);
}

TEST(Evaluation, ChangesNothingThatIsTrained) {
  for (const char* strategy : {"flat", "fsdp", "powersgd"}) {
    std::vector<std::vector<double>> last;  // losses of both ranks
    for (const bool evaluates : {false, true}) {
      Experiment experiment = experiment_of(2, strategy);
      if (!evaluates) training(experiment).train.eval.every = 0;
      last.push_back(test::of_ranks(2, [&](ProcessGroup& group) {
        Trainer trainer(experiment, make_plugins(registry(), experiment), group);
        Evaluation evaluation(experiment, trainer, group);
        for (int step = 0; step < 7; ++step) {
          trainer.step(step);
          EXPECT_EQ(evaluation.after_step(step).has_value(),
                    evaluates && (step % 3 == 2 || step == 6));
        }
        return trainer.last_loss_again();
      }));
    }
    EXPECT_EQ(last[0], last[1]) << strategy;
  }
}

TEST(Evaluation, SamplesAreNotThoseOfTheSeed) {
  Experiment experiment = experiment_of(1);
  training(experiment).optimizer.lr = 0;
  const auto losses = losses_of(experiment);
  EXPECT_EQ(losses[2], losses[6]);  // the same samples each time
}

// Half of the targets are the first of all tokens, a byte, and half stand between texts.
TEST(Evaluation, TokensBetweenTextsAreNoBytes) {
  const test::TemporaryFolder folder;
  folder.write("v.json", to_tokenizer_json(train_vocabulary({}, 257, kGpt2Pattern, {"<|end|>"})));
  std::string tokens;
  for (int i = 0; i < 1000; ++i) tokens += std::string("\0\0\0\1", 4);
  folder.write("t.bin", tokens);
  Experiment experiment = experiment_of(1);
  TrainingConfig& config = training(experiment);
  config.model.vocab_size = 300;
  config.data = {.source = DataKind::tokens,
                 .path = {folder.path() / "t.bin"},
                 .tokenizer = folder.path() / "v.json"};
  config.train.eval.path = config.data.path;
  test::run_ranks(1, [&](ProcessGroup& group) {
    Trainer trainer(experiment, make_plugins(registry(), experiment), group);
    const Evaluation evaluation(experiment, trainer, group);
    EXPECT_NEAR(evaluation.bits_per_byte(std::numbers::ln2).value(), 2, 1e-12);
  });
}

}  // namespace
}  // namespace ddprun
