// Runs on a device whose memory the host cannot read, and their proofs: what a GPU would stumble
// over and the CPU does not.
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "ddprun/experiments/collectives/collective_trial.h"
#include "ddprun/experiments/precision/precision_study.h"
#include "ddprun/experiments/training/run_proof.h"
#include "ddprun/experiments/training/run_saver.h"
#include "ddprun/experiments/training/trainer.h"
#include "ddprun/experiments/training/training.h"
#include "ddprun/plugin/state.h"
#include "ddprun/proof/proof.h"
#include "support/experiments.h"
#include "support/plugin_registry.h"
#include "support/temporary_folder.h"
#include "unit/far_device/far_device.h"

namespace ddprun {
namespace {

constexpr std::int64_t kWarmup = 3, kSteps = 3;

/// AdamW, which clips, and two micro-batches a step. `strategy`: its name and options.
Experiment far_experiment(const std::string& strategy, ExecutionMode mode) {
  Experiment experiment = test::small_experiment(1);
  experiment.world.device = DeviceKind::cuda;
  experiment.plugin(PluginKind::strategy) = test::strategy_choice("{name: " + strategy + "}");
  TrainingConfig& config = training(experiment);
  config.model.kernels = KernelSet::reference;
  config.optimizer = {};
  config.optimizer.clip_norm = 0.5;
  config.train.accumulate = 2;
  config.train.warmup_steps = kWarmup;
  config.train.steps = kSteps;
  config.execution.mode = mode;
  return experiment;
}

struct Proved {
  std::uint64_t hash = 0;  ///< of the parameters
  double loss = 0;         ///< of the last step
};

/// As a rank runs it, with a look between steps and after the last one. Checks that fail are the
/// test's failures.
Proved run(const Experiment& experiment, Device& device,
           const std::function<void(Trainer&, ProcessGroup&, std::int64_t)>& between = {}) {
  const auto group = connect_thread(make_thread_store(), 0, 1, {}, device);
  Trainer trainer(experiment, make_plugins(test::registry(), experiment), *group);
  RunProof proof(experiment, trainer, *group, process_state());
  EXPECT_TRUE(proof.begin());
  Proved out;
  for (std::int64_t step = 0; step < kWarmup + kSteps; ++step) {
    const auto keep = proof.before_step(step);
    proof.begin_step();
    out.loss = trainer.step(step, keep)[training().loss];
    proof.end_step();
    proof.after_step(step, out.loss);
    if (between) between(trainer, *group, step);
  }
  proof.finish();
  for (const Check& check : proof.checks()) {
    EXPECT_NE(check.status, CheckStatus::failed) << check.name << ": " << check.detail;
  }
  out.hash = hash_parameters(trainer.data_parallel());
  return out;
}

test::FarDevice& far_device() {
  static auto& device = *new test::FarDevice;
  return device;
}

class OnFarDevice : public ::testing::TestWithParam<const char*> {};

TEST_P(OnFarDevice, ARunProvesItselfAndTrainsAsOnTheCpu) {
  Experiment experiment = far_experiment(GetParam(), ExecutionMode::eager);
  const Proved far = run(experiment, far_device());
  experiment.world.device = DeviceKind::cpu;
  EXPECT_NEAR(far.loss, run(experiment, cpu_device()).loss, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(All, OnFarDevice,
                         ::testing::Values("none", "flat", "overlap", "bucketed", "torch_ddp",
                                           "zero1", "zero1, gather_under_forward: true",
                                           "zero1_cs336", "zero2", "fsdp", "hsdp, shard_ranks: 1",
                                           "powersgd, rank: 2", "local_sgd, every: 2"));

// A model that writes text between replays asks for other lengths.
TEST(CapturedOnFarDevice, ARunProvesItselfAndTrainsToTheSameBits) {
  const auto writes = [](Trainer& trainer, ProcessGroup&, std::int64_t step) {
    if (step == kWarmup) trainer.logits_of(at::ones({1, 3}, at::kLong));
  };
  for (const char* strategy : {"flat", "overlap"}) {
    const auto trained = [&](ExecutionMode mode) {
      return run(far_experiment(strategy, mode), far_device(), writes).hash;
    };
    EXPECT_EQ(trained(ExecutionMode::cuda_graph), trained(ExecutionMode::eager)) << strategy;
  }
}

TEST(PrecisionOnFarDevice, ARunProvesItself) {
  for (const char* precision : {"bf16_pure", "fp16_mixed"}) {
    Experiment experiment = far_experiment("flat", ExecutionMode::cuda_graph);
    experiment.plugin(PluginKind::attention).name = "sdpa";
    experiment.plugin(PluginKind::precision).name = precision;
    run(experiment, far_device());
  }
}

TEST(CheckpointOnFarDevice, IsSaved) {
  const test::TemporaryFolder folder;
  Experiment experiment = far_experiment("zero2", ExecutionMode::eager);
  CheckpointConfig& config = training(experiment).train.checkpoint;
  config.path = folder.path();
  config.every = 2;
  config.async = true;
  std::unique_ptr<RunSaver> saver;
  run(experiment, far_device(), [&](Trainer& trainer, ProcessGroup& group, std::int64_t step) {
    if (!saver) saver = std::make_unique<RunSaver>(experiment, trainer, group, "");
    saver->after_step(step);
    if (step + 1 < kWarmup + kSteps) return;
    ASSERT_FALSE(saver->saved().empty());
    for (const SavedCheckpoint& each : saver->saved()) EXPECT_EQ(each.failure, "") << each.step;
    saver.reset();
  });
}

/// A checkpoint's state of fp8: whatever was not there yet, on the CPU.
struct SavedAmax final : State {
  void tensor(std::string_view, at::Tensor& value) override { value = at::ones({16}); }
  void number(std::string_view, std::int64_t&) override {}
};

TEST(CheckpointOnFarDevice, WhatIsReadOfAPrecisionComesToTheDevice) {
  const auto fp8 = make_precision(
      test::registry(), test::choice_of(PluginKind::precision, "{name: fp8, scaling: delayed}"));
  const at::Tensor weight = at::ones({16, 16}, far_device().torch_device()).requires_grad_();
  fp8->convert({{"weight", weight}});
  SavedAmax saved;
  fp8->declare_state(saved);
  const at::Tensor y = fp8->linear()(weight.detach(), weight);
  EXPECT_NO_THROW(y.sum().backward());
}

TEST(CollectivesOnFarDevice, AreRight) {
  const auto group = connect_thread(make_thread_store(), 0, 1, {}, far_device());
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::broadcast,
                                    CollectiveKind::reduce_scatter, CollectiveKind::all_gather}) {
    for (const ElementType dtype : {ElementType::float32, ElementType::int8}) {
      const CollectivesConfig config{.collective = kind, .bytes = 300'000, .dtype = dtype};
      const auto trial = make_collective_trial(config, *group);
      trial->fill(1);
      trial->call();
      EXPECT_EQ(trial->wrong(1), 0) << name_of(kind);
    }
  }
}

TEST(PrecisionStudyOnFarDevice, IsThatOfScalars) {
  const DemonstrationConfig config{.sum = SumTypes::float16_to_float32};
  EXPECT_EQ(accumulate_by_tensors(config, far_device().torch_device()).sum,
            accumulate_by_scalars(config).sum);
  EXPECT_TRUE(measure_autocast(AutocastType::bfloat16, far_device().torch_device()).fc1_by_hand);
}

}  // namespace
}  // namespace ddprun
