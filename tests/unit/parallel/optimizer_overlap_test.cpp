// optimizer.overlap around any strategy: ranges are updated when they are reported, each element
// once, and what cannot be overlapped is refused.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "ddprun/experiments/training/trainer.h"
#include "ddprun/experiments/training/training.h"
#include "ddprun/parallel/data_parallel.h"
#include "ddprun/proof/proof.h"
#include "support/experiments.h"
#include "support/matchers.h"
#include "support/plain_sgd.h"
#include "support/plugin_registry.h"
#include "support/scaling_precision.h"
#include "support/thread_ranks.h"

namespace ddprun::optimizer_overlap_test {
namespace {

/// Reports the given ranges after backward, and notes the sum of all parameters at each.
class Reporter : public Strategy {
 public:
  void setup(StrategyContext& context) override { context_ = &context; }
  void on_gradient(int) override {
    if (too_early) context_->range_ready(context_->layout().range(0));
  }
  void finish_backward() override {
    for (const Range range : ranges) {
      context_->range_ready(range);
      sums.push_back(sum());
    }
  }
  void update() override {
    Strategy::update();
    sums.push_back(sum());
  }
  Plan plan(const ParameterLayout&, int) const override { return {.reports_ranges = reports}; }

  std::vector<Range> ranges;
  bool reports = true;
  bool too_early = false;
  std::vector<double> sums;

 private:
  double sum() const { return context_->parameters(context_->layout().all()).sum().item<double>(); }
};

OptimizerConfig overlapped_sgd() {
  OptimizerConfig config = test::plain_sgd();
  config.overlap = true;
  return config;
}

/// Two parameters of ones, 16 and 32 elements, all gradients one: an update at a rate of 1 makes a
/// one a zero, and a second a minus one. `small` is registered last, so it is range [0, 16).
struct Model {
  at::Tensor large = at::ones({32}).requires_grad_();
  at::Tensor small = at::ones({16}).requires_grad_();
  std::vector<NamedTensor> parameters() const { return {{"large", large}, {"small", small}}; }
  at::Tensor loss() const { return large.sum() + small.sum(); }
};

class OptimizerOverlap : public testing::Test {
 protected:
  DataParallel make() {
    return DataParallel(model.parameters(), *group, strategy, test::fp32(), overlapped_sgd());
  }

  /// The message of the Error that a step of `ddp` throws.
  std::string error(DataParallel ddp, double step_lr = 1.0, double clip_norm = 0.0) const {
    return test::error_of([&] {
      ddp.begin_step(1.0);
      ddp.backward(ddp.forward([&] { return model.loss(); }));
      ddp.step(step_lr, clip_norm);
    });
  }

  std::unique_ptr<ProcessGroup> group = connect_thread(make_thread_store(), 0, 1, {});
  Model model;
  Reporter strategy;
};

TEST_F(OptimizerOverlap, UpdatesWhatIsReportedAtOnceAndTheRestInStep) {
  DataParallel ddp = make();
  strategy.ranges = {{40, 48}, {0, 8}, {20, 20}};
  for (int step = 0; step < 2; ++step) {
    ddp.backward(
        ddp.forward([&] { return model.loss(); }, {0, 2}));  // a micro-batch before the last
    ddp.buffers().zero_grad();
    strategy.sums.clear();
    ddp.begin_step(1.0);
    const BackwardMarks marks = ddp.backward(ddp.forward([&] { return 2 * model.loss(); }, {1, 2}));
    ASSERT_FALSE(marks.updates.empty());
    std::int64_t free = marks.last_gradient;  // of the CPU, marks are times
    for (const auto& [begin, end] : marks.updates) {
      EXPECT_LE(free, begin);
      EXPECT_LT(begin, end);
      free = end;
    }
    EXPECT_LE(free, marks.synchronized);
    EXPECT_FALSE(ddp.step(1.0, 0.0).skipped());
    const double before = 48.0 * (1 - step);
    EXPECT_THAT(strategy.sums, ElementsAre(before - 8, before - 16, before - 16, before - 48));
    EXPECT_TRUE(at::equal(model.large, at::full({32}, -step))) << "each element once";
    EXPECT_TRUE(at::equal(model.small, at::full({16}, -step))) << "each element once";
    EXPECT_FALSE(model.small.grad().defined());
  }
}

TEST_F(OptimizerOverlap, ABackwardWithoutAStepUpdatesNothing) {
  strategy.ranges = {{0, 48}};
  DataParallel ddp = make();
  EXPECT_TRUE(ddp.backward(ddp.forward([&] { return model.loss(); })).updates.empty());
  ddp.drop_gradients();
  EXPECT_TRUE(at::equal(model.large, at::ones({32})));
  EXPECT_EQ(check_integer_gradients(ddp, *group).status, CheckStatus::passed);
  EXPECT_TRUE(at::equal(model.large, at::ones({32})));
}

TEST_F(OptimizerOverlap, ABackwardAfterAReplayedStepUpdatesNothing) {
  strategy.ranges = {{0, 48}};
  DataParallel ddp = make();
  ddp.begin_step(1.0);  // and then a captured step was replayed
  ddp.step_replayed();
  EXPECT_EQ(check_integer_gradients(ddp, *group).status, CheckStatus::passed);
  EXPECT_TRUE(at::equal(model.large, at::ones({32})));
}

TEST_F(OptimizerOverlap, WithoutTheOptionARangeReportedIsNotUpdated) {
  strategy.ranges = {{0, 48}};
  OptimizerConfig after = overlapped_sgd();
  after.overlap = false;
  DataParallel ddp(model.parameters(), *group, strategy, test::fp32(), after);
  for (const bool begun : {false, true}) {  // the rate may be told before or after
    strategy.sums.clear();
    const double sum = model.large.sum().item<double>() + model.small.sum().item<double>();
    if (begun) ddp.begin_step(1.0);
    ddp.backward(ddp.forward([&] { return model.loss(); }));
    ddp.step(1.0, 0.0);
    EXPECT_THAT(strategy.sums, ElementsAre(sum, sum - 48));
  }
}

TEST_F(OptimizerOverlap, AnElementReportedTwiceIsAnError) {
  strategy.ranges = {{0, 16}, {8, 9}};
  EXPECT_THAT(error(make()), AllOf(HasSubstr("updated twice in one step"),
                                   HasSubstr("elements 8 to 9, after 0 to 16")));
  strategy.ranges = {{16, 48}, {0, 17}};
  EXPECT_THAT(error(make()), HasSubstr("elements 0 to 17, after 16 to 48"));
}

TEST_F(OptimizerOverlap, AStrategyMustReportRangesAfterBackward) {
  EXPECT_THAT(error(make()), HasSubstr("reported no range, so optimizer.overlap had no effect"));
  strategy.too_early = true;
  EXPECT_THAT(error(make()), HasSubstr("before backward was done"));
  strategy.reports = false;
  EXPECT_THROW(make(), ConfigError);
}

TEST_F(OptimizerOverlap, AStepCompletesWhatWasBegun) {
  strategy.ranges = {{0, 48}};
  EXPECT_EQ(error(make()), "no error");
  EXPECT_THAT(error(make(), 0.5), HasSubstr("expected: lr 1 and clip_norm 0"));
  EXPECT_THAT(error(make(), 1.0, 2.0), HasSubstr("got: lr 1 and clip_norm 2"));
  DataParallel ddp = make();
  ddp.backward(ddp.forward([&] { return model.loss(); }));
  EXPECT_THROW(ddp.step(1.0, 0.0), Error) << "begin_step() forgotten";
  ddp.begin_step(1.0);
  EXPECT_THROW(ddp.step(1.0, 0.0), Error) << "begin_step() after backward";
}

TEST_F(OptimizerOverlap, APrecisionThatScalesTheLossIsRefused) {
  test::ScalingPrecision scales(8);
  EXPECT_THROW(DataParallel(model.parameters(), *group, strategy, scales, overlapped_sgd()),
               ConfigError);
}

/// One step on one rank, of which a part is updated during finish_backward().
Sample trainer_step() {
  Experiment experiment = test::small_experiment(1);
  experiment.plugin(PluginKind::attention).name = "sdpa";
  training(experiment).optimizer.overlap = true;
  Sample sample(training());
  test::run_ranks(1, [&](ProcessGroup& group) {
    Reporter strategy;
    strategy.ranges = {{0, 64}};
    Trainer trainer(experiment, test::plugins_with(strategy, test::registry(), experiment), group);
    sample = trainer.step(0);
  });
  return sample;
}

TEST(OptimizerOverlapTrainer, UpdatesAreOptimizerTimeAndNotExposedCommunication) {
  const Training& q = training();
  const Sample sample = trainer_step();
  EXPECT_GT(sample[q.synchronize_ms], 0);
  EXPECT_NEAR(sample[q.forward_ms] + sample[q.backward_ms] + sample[q.synchronize_ms] +
                  sample[q.optimizer_ms],
              sample[q.step_ms], 1e-6);
}

}  // namespace
}  // namespace ddprun::optimizer_overlap_test
