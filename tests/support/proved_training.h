// Small trainings of strategies that shard: each step holds its plan, each end its proof.
#pragma once

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ddprun/experiments/training/trainer.h"
#include "ddprun/parallel/whole_buffers.h"
#include "ddprun/proof/proof.h"
#include "support/experiments.h"
#include "support/plugin_registry.h"

namespace ddprun::test {

/// AdamW, eager attention, three blocks. `strategy` is YAML: "{name: fsdp}".
inline Experiment sharding_experiment(const std::string& strategy, const std::string& precision,
                                      int ranks) {
  Experiment experiment = small_experiment(ranks);
  experiment.plugin(PluginKind::strategy) = strategy_choice(strategy);
  experiment.plugin(PluginKind::precision).name = precision;
  training(experiment).model.layers = 3;
  training(experiment).optimizer = OptimizerConfig{};  // adamw
  return experiment;
}

struct ProvedTraining {
  std::vector<NamedTensor> parameters;  ///< all, in the end
  std::uint64_t hash = 0;               ///< of them, as a result has it
  double loss = 0;                      ///< by them
};

/// Runs `steps` steps, evaluates after the second and the last, and makes the checks of a run. All
/// ranks call it.
inline ProvedTraining train_and_prove(Trainer& trainer, ProcessGroup& group, int steps) {
  DataParallel& ddp = trainer.data_parallel();
  EXPECT_EQ(check_initial_parameters(ddp, group).status, CheckStatus::passed);
  ProvedTraining out;
  for (int step = 0; step < steps; ++step) {
    trainer.step(step);
    EXPECT_EQ(compare_with_plan(trainer.last_records(), trainer.planned()), "");
    if (step == 1 || step + 1 == steps) out.loss = trainer.last_loss_again();
  }
  for (const int micro_batches : {1, 2}) {
    const Check integers = check_integer_gradients(ddp, group, {.micro_batches = micro_batches});
    EXPECT_EQ(integers.status, CheckStatus::passed) << integers.detail;
  }
  EXPECT_EQ(check_compute_copy(ddp, group).status, CheckStatus::passed);
  const Check equal = check_parameters_equal(ddp, group);
  EXPECT_EQ(equal.status, CheckStatus::passed) << equal.detail;
  out.parameters = full_parameters(ddp);
  out.hash = hash_parameters(ddp);
  return out;
}

/// With the plugins of the experiment.
inline ProvedTraining train_and_prove(const Experiment& experiment, ProcessGroup& group,
                                      int steps) {
  Trainer trainer(experiment, make_plugins(registry(), experiment), group);
  return train_and_prove(trainer, group, steps);
}

/// `within` 0: bit by bit.
inline void expect_equal(const ProvedTraining& got, const ProvedTraining& expected,
                         double within = 0) {
  EXPECT_NEAR(got.loss, expected.loss, within);
  if (within == 0) {
    EXPECT_EQ(got.hash, expected.hash);
  }
  ASSERT_EQ(got.parameters.size(), expected.parameters.size());
  for (std::size_t i = 0; i < got.parameters.size(); ++i) {
    EXPECT_EQ(got.parameters[i].name, expected.parameters[i].name);
    EXPECT_EQ(got.parameters[i].tensor.scalar_type(), expected.parameters[i].tensor.scalar_type());
    const at::Tensor one = got.parameters[i].tensor.to(at::kFloat);
    const at::Tensor other = expected.parameters[i].tensor.to(at::kFloat);
    EXPECT_TRUE(within > 0 ? at::allclose(one, other, within, within) : at::equal(one, other))
        << got.parameters[i].name;
  }
}

}  // namespace ddprun::test
