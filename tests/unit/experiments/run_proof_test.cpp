// When a run checks itself, and what its checks say of a fault that comes and goes.
#include "ddprun/experiments/training/run_proof.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>

#include <algorithm>

#include "ddprun/experiments/training/training.h"
#include "support/experiments.h"
#include "support/matchers.h"
#include "support/plugin_registry.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

StepSpan of_steps(std::int64_t warmup, std::int64_t measured) {
  TrainConfig train;
  train.warmup_steps = warmup;
  train.steps = measured;
  return steps_from(0, train);
}

TEST(DrawnSteps, AreOneOfTheWarmUpAndThreeMeasuredOnesNeverTheLast) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    for (const std::int64_t warmup : {0, 1, 5}) {
      for (const std::int64_t measured : {1, 2, 3, 4, 10, 1000}) {
        const auto drawn = drawn_steps(seed, of_steps(warmup, measured));
        const auto in_warmup = std::count_if(drawn.begin(), drawn.end(),
                                             [&](std::int64_t step) { return step < warmup; });
        EXPECT_EQ(in_warmup, warmup > 1 ? 1 : 0);
        EXPECT_EQ(std::ssize(drawn) - in_warmup, std::min<std::int64_t>(measured - 1, 3));
        EXPECT_TRUE(std::is_sorted(drawn.begin(), drawn.end()));
        for (const std::int64_t step : drawn) EXPECT_LT(step, warmup + measured - 1);
      }
    }
  }
  EXPECT_NE(drawn_steps(1, of_steps(5, 1000)), drawn_steps(2, of_steps(5, 1000)));
  EXPECT_EQ(drawn_steps(1, of_steps(5, 1000)), drawn_steps(1, of_steps(5, 1000)));
}

using test::registry;

/// A right strategy, whose gradients are halved from the step `halved_from` on.
class Mean : public Strategy {
 public:
  explicit Mean(std::int64_t halved_from) : halved_from_(halved_from) {}
  Plan plan(const ParameterLayout& layout, int) const override {
    Plan plan;
    plan.add(CollectiveKind::all_reduce, layout.gradient_bytes(layout.all()));
    return plan;
  }
  void finish_backward() override {
    const at::Tensor gradients = context_->gradients(context_->layout().all());
    context_->group().all_reduce(gradients, ReduceOp::avg, "all").wait();
    if (step_ >= halved_from_) gradients.mul_(0.5);
  }
  void update() override {
    ++step_;
    Strategy::update();
  }

 private:
  std::int64_t halved_from_;
  std::int64_t step_ = 0;
};

Experiment make_experiment(double clip_norm = 0.1) {
  Experiment experiment = test::small_experiment(2);
  experiment.plugin(PluginKind::strategy).name = "mine";
  training(experiment).optimizer.name = OptimizerKind::adamw;
  training(experiment).optimizer.clip_norm = clip_norm;
  training(experiment).train.proof_seed = 3;
  return experiment;
}

struct Proved {
  std::vector<Check> checks;
  at::Tensor parameters;
  std::vector<double> losses;
};

/// Rank 0's view of a run whose proof looks at itself, or not.
Proved train(std::int64_t halved_from, bool look, double clip_norm = 0.1) {
  const Experiment experiment = make_experiment(clip_norm);
  return test::of_ranks(2, [&](ProcessGroup& group) {
    Mean strategy(halved_from);
    Trainer trainer(experiment, test::plugins_with(strategy, registry(), experiment), group);
    RunProof proof(experiment, trainer, group);
    if (look) {
      EXPECT_TRUE(proof.begin());
    }
    std::vector<double> losses;
    for (std::int64_t step = 0; step < training(experiment).train.steps; ++step) {
      const auto keep = look ? proof.before_step(step) : nullptr;
      losses.push_back(trainer.step(step, keep)[training().loss]);
      if (look) proof.after_step(step, losses.back());
    }
    if (look) {
      EXPECT_GT(trainer.data_parallel().optimizer().state_bytes(), 0);
      proof.finish();
      EXPECT_EQ(trainer.data_parallel().optimizer().state_bytes(), 0) << "they made room";
    }
    const FlatBuffers& buffers = trainer.data_parallel().buffers();
    return Proved{proof.checks(), buffers.parameters(buffers.all()).clone(), losses};
  })[0];
}

const Check& named(const std::vector<Check>& checks, const std::string& name) {
  return *std::find_if(checks.begin(), checks.end(),
                       [&](const Check& check) { return check.name == name; });
}

constexpr std::int64_t kNever = 1'000;

TEST(RunProof, LeavesNoTraceInTheTraining) {
  const Proved with = train(kNever, true);
  const Proved without = train(kNever, false);
  EXPECT_TRUE(at::equal(with.parameters, without.parameters));
  EXPECT_EQ(with.losses, without.losses);
}

TEST(RunProof, MakesEachCheckOfARightRun) {
  const Proved run = train(kNever, true);
  std::vector<std::string> names;
  for (const Check& check : run.checks) {
    names.push_back(check.name);
    EXPECT_EQ(check.status, CheckStatus::passed) << check.name << ": " << check.detail;
  }
  EXPECT_THAT(names,
              UnorderedElementsAre("initial_parameters_equal", "compute_copy", "integer_gradients",
                                   "parameters_equal", "attention_computed", "gradients_averaged",
                                   "gradients_computed", "parameters_updated", "rest_after_steps",
                                   "clock_agrees", "collectives_as_planned", "step_scalars_equal",
                                   "process_as_told", "samples_read", "optimizer_computed"));
  EXPECT_THAT(named(run.checks, "integer_gradients").detail,
              HasSubstr("(after step 19, the last, and each time before)"));
}

/// What float32 holds of them is a few bits, and zero.
TEST(RunProof, KnowsATinyFactorOfClipping) {
  for (const double clip_norm : {1e-43, 1e-300}) {
    const Proved run = train(kNever, true, clip_norm);
    const Check& check = named(run.checks, "step_scalars_equal");
    EXPECT_EQ(check.status, CheckStatus::passed) << check.detail;
  }
}

TEST(RunProof, NamesTheStepsBetweenWhichAFaultBegan) {
  const TrainConfig config = training(make_experiment()).train;
  const auto drawn =
      drawn_steps(static_cast<std::uint64_t>(*config.proof_seed), steps_from(0, config));
  ASSERT_GE(drawn.size(), 2U);
  const Proved run = train(drawn[0] + 2, true);
  const Check check = named(run.checks, "integer_gradients");
  EXPECT_EQ(check.status, CheckStatus::failed);
  EXPECT_THAT(check.detail,
              HasSubstr("strategy mine: held after step " + std::to_string(drawn[0]) +
                        ", failed after step " + std::to_string(drawn[1]) + ": rank 0: "));
}

}  // namespace
}  // namespace ddprun
