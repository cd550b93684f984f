// The step loop's contracts: which samples a rank trains on, in which order gradients come.
#include "ddprun/experiments/training/trainer.h"
#include "ddprun/experiments/training/training.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <sys/resource.h>

#include <cmath>
#include <numeric>

#include "ddprun/base/clock.h"
#include "ddprun/measure/kernel_clock.h"
#include "ddprun/plugin/deviations.h"
#include "ddprun/proof/proof.h"
#include "ddprun/rank/affinity.h"
#include "support/experiments.h"
#include "support/plugin_registry.h"
#include "support/sanitizers.h"
#include "support/scaling_precision.h"
#include "support/thread_ranks.h"

namespace ddprun::trainer_test {
namespace {

using test::Listener;
using test::registry;
using test::small_experiment;

/// The loss of the initial model on samples [first, first + count) of step 0.
double initial_loss(const Experiment& experiment, std::int64_t first, std::int64_t count) {
  const auto attention = make_attention(registry(), experiment.plugin(PluginKind::attention));
  const auto seed = static_cast<std::uint64_t>(training(experiment).train.seed);
  const Transformer model(training(experiment).model, *attention, seed);
  const auto data = open_data(training(experiment).data, training(experiment).model.vocab_size,
                              training(experiment).model.context_length, seed);
  const Batch batch = data->batch(0, first, count);
  return model.loss(batch.ids, batch.targets).item<double>();
}

TEST(Trainer, LogitsAreOfTheWeightsThatWereTrained) {
  const auto logits = [](const std::string& strategy) {
    Experiment experiment = small_experiment(2);
    experiment.plugin(PluginKind::precision).name = "bf16_mixed";
    experiment.plugin(PluginKind::strategy).name = strategy;
    training(experiment).optimizer.lr = 0.1;
    const auto out = test::of_ranks(2, [&](ProcessGroup& group) {
      Trainer trainer(experiment, make_plugins(registry(), experiment), group);
      for (std::int64_t step = 0; step < 3; ++step) trainer.step(step);
      return trainer.logits_of(at::zeros({1, 4}, at::kLong));
    });
    EXPECT_TRUE(at::equal(out[0], out[1])) << strategy;
    return out[0];
  };
  // Where ranks own parts, only the copy in bfloat16 is whole.
  const at::Tensor whole = logits("flat");
  for (const char* strategy : {"zero1", "zero2", "fsdp"}) {
    EXPECT_TRUE(at::equal(logits(strategy), whole)) << strategy;
  }
}

TEST(Trainer, RankTrainsOnItsSliceOfTheGlobalBatch) {
  for (const int ranks : {1, 2, 4}) {
    for (const int accumulate : {1, 2}) {
      Experiment experiment = small_experiment(ranks);
      training(experiment).train.accumulate = accumulate;
      const auto losses = test::of_ranks(ranks, [&](ProcessGroup& group) {
        Listener listener;
        Trainer trainer(experiment, test::plugins_with(listener, registry(), experiment), group);
        return trainer.step(0)[training().loss];
      });
      const std::int64_t share = global_batch(experiment) / ranks;
      for (int rank = 0; rank < ranks; ++rank) {
        EXPECT_NEAR(losses[rank], initial_loss(experiment, rank * share, share), 1e-5)
            << "rank " << rank << " of " << ranks << ", accumulate " << accumulate;
      }
      if (ranks > 1) {
        EXPECT_GT(std::abs(losses[0] - losses[1]), 1e-3) << "samples do not differ";
      }
    }
  }
}

// A fused layer has the gradients of all its parameters at once: head, (feed-forward, attention)
// twice, embedding.
TEST(Trainer, GradientsBecomeFinalInBufferOrder) {
  const std::vector<int> one_by_one(21, 1), by_layer = {2, 5, 4, 5, 4, 1};
  for (const KernelSet kernels : {KernelSet::reference, KernelSet::fused}) {
    Experiment experiment = small_experiment(1);
    training(experiment).model.kernels = kernels;
    test::run_ranks(1, [&](ProcessGroup& group) {
      Listener listener;
      Trainer trainer(experiment, test::plugins_with(listener, registry(), experiment), group);
      trainer.step(0);
      auto next = listener.order.begin();
      int first = 0;
      for (const int size : kernels == KernelSet::fused ? by_layer : one_by_one) {
        std::vector<int> layer(size);
        std::iota(layer.begin(), layer.end(), first);
        EXPECT_TRUE(std::is_permutation(layer.begin(), layer.end(), next)) << first;
        next += size;
        first += size;
      }
      EXPECT_EQ(next, listener.order.end());
      EXPECT_EQ(first, trainer.data_parallel().buffers().count());
    });
  }
}

// Pages that ten steps take from the kernel.
TEST(Trainer, LaterStepsReuseTheMemoryOfTheFirst) {
  if (test::kSanitized) GTEST_SKIP() << "a sanitizer's allocator does not reuse memory at once";
  Experiment experiment = small_experiment(1);
  training(experiment).model.vocab_size = 20'000;
  set_affinity(experiment.world, {});
  const auto group = connect_thread(make_thread_store(), 0, 1, {});
  Listener listener;
  Trainer trainer(experiment, test::plugins_with(listener, registry(), experiment), *group);
  const auto faults = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
  };
  for (int step = 0; step < 3; ++step) trainer.step(step);
  constexpr int kLogits = 2500;  // pages of 4 KiB: all 128 rows at a time
  const auto before = faults();
  for (int step = 3; step < 13; ++step) trainer.step(step);
  // The heap may still grow once. Anew each step they would be ten times as many.
  EXPECT_LT(faults() - before, 2 * kLogits);
}

/// An all-reduce for each gradient, all at once: they wait for one another.
class AllAtOnce : public Strategy {
 public:
  void finish_backward() override {
    const ParameterLayout& layout = context_->layout();
    std::vector<Work> works;
    for (int index = 0; index < layout.count(); ++index) {
      works.push_back(context_->group().all_reduce(context_->gradients(layout.range(index)),
                                                   ReduceOp::avg, "gradient"));
    }
    for (Work& work : works) work.wait();
  }
};

TEST(Trainer, LaunchDelayIsTheMeanFromEnqueueToStart) {
  const Experiment experiment = small_experiment(2);
  test::run_ranks(2, [&](ProcessGroup& group) {
    AllAtOnce strategy;
    Trainer trainer(experiment, test::plugins_with(strategy, registry(), experiment), group);
    const Sample sample = trainer.step(0);
    double delay_ns = 0;
    const auto count = static_cast<double>(trainer.last_records().size());
    ASSERT_GT(count, 4);
    for (const CollectiveRecord& record : trainer.last_records()) {
      delay_ns += static_cast<double>(record.start_ns - record.enqueue_ns);
    }
    EXPECT_NEAR(sample[training().launch_delay_ms], delay_ns / count * 1e-6, 1e-9);
  });
}

TEST(Trainer, WhatLooksIntoAStepIsInNoneOfItsTimes) {
  const Experiment experiment = small_experiment(1);
  test::run_ranks(1, [&](ProcessGroup& group) {
    Listener listener;
    Trainer trainer(experiment, test::plugins_with(listener, registry(), experiment), group);
    trainer.step(0);  // the first takes long
    constexpr std::int64_t kLooks = 500'000'000;
    const Sample sample = trainer.step(1, [] {
      const std::int64_t end_ns = process_cpu_ns() + kLooks;
      while (process_cpu_ns() < end_ns) continue;
    });
    EXPECT_LT(sample[training().cpu_ms], to_ms(kLooks));
    EXPECT_LT(sample[training().step_ms], to_ms(kLooks));
    const StepTimeline timeline = trainer.timeline();
    EXPECT_NEAR(to_ms(timeline.end_ns() - timeline.begin_ns), sample[training().step_ms], 1e-6);
    const TimeSpan& optimizer = timeline.phases.back();
    EXPECT_NEAR(to_ms(optimizer.end_ns - optimizer.begin_ns), sample[training().optimizer_ms],
                1e-6);
  });
}

/// Skips every second step, the first one too, as a precision for float16 skips those whose
/// gradients overflow on a rank.
class Skipping final : public Precision, public LossScaler {
  LossScaler* loss_scaler() override { return this; }
  at::Tensor scale(const at::Tensor& loss) override { return loss; }
  GradientScale gradient_scale(const std::vector<at::Tensor>&) override {
    skip_ = !skip_;
    return {.overflow = at::full({}, skip_ ? 1.0 : 0.0)};
  }
  bool skip_ = false;
};

TEST(Trainer, AStepThatThePrecisionSkipsIsRecorded) {
  Experiment experiment = small_experiment(1);
  training(experiment).optimizer.clip_norm = 1e-3;
  test::run_ranks(1, [&](ProcessGroup& group) {
    Listener listener;
    RunPlugins plugins = test::plugins_with(listener, registry(), experiment);
    plugins.precision = std::make_shared<Skipping>();
    Trainer trainer(experiment, plugins, group);
    auto& buffers = trainer.data_parallel().buffers();
    for (int step = 0; step < 4; ++step) {
      const at::Tensor before = buffers.parameters(buffers.all()).detach().clone();
      const Sample sample = trainer.step(step);
      const bool skipped = sample[training().skipped] != 0;
      EXPECT_EQ(skipped, step % 2 == 0);
      EXPECT_EQ(sample.find(training().gradient_norm).has_value(), !skipped)
          << "nothing was clipped";
      EXPECT_EQ(at::equal(buffers.parameters(buffers.all()), before), skipped);
    }
  });
}

TEST(Trainer, ALossThatIsScaledGivesTheSameStep) {
  Experiment experiment = small_experiment(1);
  training(experiment).optimizer.clip_norm = 1e-2;
  std::vector<at::Tensor> parameters;
  std::vector<std::optional<double>> norms;
  const std::shared_ptr<Precision> scaling[] = {std::make_shared<Precision>(),
                                                std::make_shared<test::ScalingPrecision>(8)};
  for (const auto& precision : scaling) {  // by a power of two, so every bit is the same
    test::run_ranks(1, [&](ProcessGroup& group) {
      Listener listener;
      RunPlugins plugins = test::plugins_with(listener, registry(), experiment);
      plugins.precision = precision;
      Trainer trainer(experiment, plugins, group);
      norms.push_back(trainer.step(0).find(training().gradient_norm));
      auto& buffers = trainer.data_parallel().buffers();
      parameters.push_back(buffers.parameters(buffers.all()).clone());
    });
  }
  EXPECT_GT(norms[0].value(), 1e-2) << "nothing was clipped";
  EXPECT_EQ(norms[0], norms[1]);
  EXPECT_TRUE(at::equal(parameters[0], parameters[1]));
}

/// Sends no gradient, and keeps all of it for later.
class SendsNothing : public Listener {
 public:
  void setup(StrategyContext& context) override {
    Listener::setup(context);
    error_ = at::zeros({context.layout().all().size()});
    deviations(context).carries({.error_feedback = error_});
  }
  void finish_backward() override {
    const at::Tensor gradients = context_->gradients(context_->layout().all());
    error_.copy_(gradients);
    gradients.zero_();
  }

 private:
  at::Tensor error_;
};

TEST(Trainer, AFigureThatIsNoNumberIsAbsent) {
  const Experiment experiment = small_experiment(1);
  test::run_ranks(1, [&](ProcessGroup& group) {
    SendsNothing strategy;
    Trainer trainer(experiment, test::plugins_with(strategy, registry(), experiment), group);
    const Sample sample = trainer.step(0);
    EXPECT_FALSE(sample.find(training().error_feedback)) << "beside gradients that are all zero";
    EXPECT_FALSE(sample.find(training().gradient_norm)) << "nothing is clipped";
  });
}

/// Of the parameters after some steps on two ranks.
std::uint64_t hash_after(const std::string& strategy, UnitSize unit = UnitSize::block) {
  Experiment experiment = small_experiment(2);
  experiment.plugin(PluginKind::strategy).name = strategy;
  training(experiment).model.unit = unit;
  return test::of_ranks(2, [&](ProcessGroup& group) {
    Trainer trainer(experiment, make_plugins(registry(), experiment), group);
    for (int step = 0; step < 3; ++step) trainer.step(step);
    return hash_parameters(trainer.data_parallel());
  })[0];
}

TEST(Trainer, EqualTrainingHashesEqualHoweverParametersAreHeld) {
  const std::uint64_t hash = hash_after("flat");
  for (const char* strategy : {"bucketed", "zero1", "zero2", "fsdp"}) {
    EXPECT_EQ(hash_after(strategy), hash) << strategy;
    EXPECT_EQ(hash_after(strategy, UnitSize::layer), hash) << strategy;
  }
}

}  // namespace
}  // namespace ddprun::trainer_test
