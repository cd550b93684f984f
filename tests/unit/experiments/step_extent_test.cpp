// Steps that end before the update: what they allocate, what they leave alone, what is proved.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>

#include <algorithm>
#include <functional>

#include "ddprun/experiments/training/run_proof.h"
#include "ddprun/experiments/training/training.h"
#include "support/experiments.h"
#include "support/matchers.h"
#include "support/plugin_registry.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

using test::registry;

Experiment make_experiment(StepExtent extent, int ranks, const std::string& precision = "fp32") {
  Experiment experiment = test::small_experiment(ranks);
  training(experiment).optimizer = {};
  experiment.plugin(PluginKind::strategy).name = "flat";
  experiment.plugin(PluginKind::precision).name = precision;
  training(experiment).train.measure = extent;
  training(experiment).train.steps = 4;
  if (precision != "fp32" && precision != "bf16_mixed") {
    training(experiment).model.kernels = KernelSet::reference;
  }
  return experiment;
}

struct Ran {
  std::vector<Check> checks;
  std::vector<Sample> samples;
  at::Tensor before, after;  // parameters
  bool has_grad = false;
  std::vector<TimeSpan> phases;
};

/// Rank 0's view of a run. `between` is called after each step.
Ran run(const Experiment& experiment,
        const std::function<void(Trainer&, std::int64_t)>& between = {}) {
  Ran out;
  test::run_ranks(static_cast<int>(experiment.world.size), [&](ProcessGroup& group) {
    Trainer trainer(experiment, make_plugins(registry(), experiment), group);
    RunProof proof(experiment, trainer, group);
    ASSERT_TRUE(proof.begin());
    const FlatBuffers& buffers = trainer.data_parallel().buffers();
    const at::Tensor before = buffers.parameters(buffers.all()).clone();
    std::vector<Sample> samples;
    for (std::int64_t step = 0; step < training(experiment).train.steps; ++step) {
      samples.push_back(trainer.step(step, proof.before_step(step)));
      proof.after_step(step, samples.back()[training().loss]);
      if (between) between(trainer, step);
    }
    proof.finish();
    if (group.rank() != 0) return;
    out = {proof.checks(), samples,
           before,         buffers.parameters(buffers.all()).clone(),
           false,          trainer.timeline().phases};
    for (int i = 0; i < buffers.count(); ++i) out.has_grad |= buffers.parameter(i).grad().defined();
  });
  return out;
}

std::vector<std::string> names_of_passed(const std::vector<Check>& checks) {
  std::vector<std::string> names;
  for (const Check& check : checks) {
    EXPECT_EQ(check.status, CheckStatus::passed) << check.name << ": " << check.detail;
    if (check.name != "products_format") names.push_back(check.name);  // of some precisions
  }
  return names;
}

TEST(StepExtent, AForwardHasNoTimesOfWhatItDoesNotReach) {
  const Training& q = training();
  for (const char* precision : {"fp32", "bf16_mixed", "bf16_true", "fp16_mixed"}) {
    SCOPED_TRACE(precision);
    const Ran ran = run(make_experiment(StepExtent::forward, 1, precision));
    for (const Sample& sample : ran.samples) {
      EXPECT_GT(sample[q.forward_ms], 0);
      for (const Quantity* absent : {&q.backward_ms, &q.synchronize_ms, &q.optimizer_ms}) {
        EXPECT_FALSE(sample.find(*absent)) << absent->key;
      }
      EXPECT_EQ(sample[q.collectives], 0);
      EXPECT_GT(sample[q.loss], 1);
    }
    EXPECT_THAT(
        names_of_passed(ran.checks),
        UnorderedElementsAre("initial_parameters_equal", "attention_computed", "compute_copy",
                             "parameters_equal", "parameters_unchanged", "loss_again",
                             "loss_computed", "process_as_told", "collectives_as_planned",
                             "rest_after_steps", "clock_agrees", "samples_read"));
    EXPECT_TRUE(at::equal(ran.before, ran.after));
    EXPECT_FALSE(ran.has_grad);
    ASSERT_EQ(ran.phases.size(), 1u);
    EXPECT_EQ(ran.phases[0].name, "forward");
  }
}

TEST(StepExtent, AForwardAllocatesNoGradients) {
  const Experiment experiment = make_experiment(StepExtent::forward, 1);
  test::run_ranks(1, [&](ProcessGroup& group) {
    Trainer trainer(experiment, make_plugins(registry(), experiment), group);
    trainer.step(0);
    FlatBuffers& buffers = trainer.data_parallel().buffers();
    EXPECT_ANY_THROW(buffers.gradients(buffers.all()));
    for (const ParameterSlot& slot : buffers.slots()) EXPECT_FALSE(slot.gradient.defined());
  });
}

TEST(StepExtent, TheLossIsThatOfTheWholeStep) {
  const Training& q = training();
  const double whole = run(make_experiment(StepExtent::step, 1)).samples[0][q.loss];
  for (const StepExtent extent : {StepExtent::forward, StepExtent::forward_backward}) {
    EXPECT_NEAR(run(make_experiment(extent, 1)).samples[0][q.loss], whole, 1e-6);
  }
}

TEST(StepExtent, ABackwardSynchronizesAndUpdatesNothing) {
  const Training& q = training();
  for (const char* precision : {"fp32", "fp16_mixed", "fp8"}) {
    SCOPED_TRACE(precision);
    const Ran ran = run(make_experiment(StepExtent::forward_backward, 2, precision));
    for (const Sample& sample : ran.samples) {
      EXPECT_GT(sample[q.backward_ms], 0);
      EXPECT_EQ(sample[q.collectives], 1);
      EXPECT_FALSE(sample.find(q.optimizer_ms));
    }
    std::vector<std::string> expected = {"initial_parameters_equal",
                                         "attention_computed",
                                         "compute_copy",
                                         "parameters_equal",
                                         "parameters_unchanged",
                                         "loss_again",
                                         "integer_gradients",
                                         "gradients_averaged",
                                         "collectives_as_planned",
                                         "rest_after_steps",
                                         "clock_agrees",
                                         "process_as_told",
                                         "samples_read"};
    if (precision != std::string("fp8")) expected.emplace_back("gradients_computed");
    EXPECT_THAT(names_of_passed(ran.checks), testing::UnorderedElementsAreArray(expected));
    EXPECT_TRUE(at::equal(ran.before, ran.after));
    EXPECT_FALSE(ran.has_grad);
  }
}

TEST(StepExtent, AParameterThatMovesIsFound) {
  for (const StepExtent extent : {StepExtent::forward, StepExtent::forward_backward}) {
    const Ran ran = run(make_experiment(extent, 1), [](Trainer& trainer, std::int64_t step) {
      FlatBuffers& buffers = trainer.data_parallel().buffers();
      if (step == 1) buffers.parameters({0, 1}).add_(1);
    });
    bool found = false;
    for (const Check& check : ran.checks) {
      if (check.name != "parameters_unchanged") continue;
      found = true;
      EXPECT_EQ(check.status, CheckStatus::failed);
      EXPECT_THAT(check.detail, HasSubstr("before step 0"));
    }
    EXPECT_TRUE(found);
  }
}

TEST(StepExtent, ALossThatChangesIsFound) {
  const Ran ran =
      run(make_experiment(StepExtent::forward, 1), [](Trainer& trainer, std::int64_t step) {
        FlatBuffers& buffers = trainer.data_parallel().buffers();
        if (step == 3) buffers.parameters(buffers.all()).mul_(3);
      });
  const auto check = std::find_if(ran.checks.begin(), ran.checks.end(),
                                  [](const Check& each) { return each.name == "loss_again"; });
  ASSERT_NE(check, ran.checks.end());
  EXPECT_EQ(check->status, CheckStatus::failed) << check->detail;
}

}  // namespace
}  // namespace ddprun
