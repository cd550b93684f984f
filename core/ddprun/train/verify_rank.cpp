// Trains by many ranks, then by one process, and compares.
#include "ddprun/train/verify_rank.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "ddprun/train/affinity.h"
#include "ddprun/train/emulated_ranks.h"
#include "ddprun/train/run_plugins.h"
#include "ddprun/train/trainer.h"

namespace ddprun {

namespace {

/// The single process of the comparison has nobody to synchronize with.
class Alone : public Strategy {
 public:
  void setup(StrategyContext&) override {}
  void finish_backward() override {}
};

/// What is compared: gradients of the first step, parameters after the last. Flat buffers, on the
/// CPU.
struct Outcome {
  at::Tensor gradients;
  at::Tensor parameters;
};

Outcome train(Trainer& trainer, std::int64_t steps) {
  Outcome outcome;
  auto& buffers = trainer.data_parallel().buffers();
  for (std::int64_t index = 0; index < steps; ++index) {
    trainer.step(index, [&] {
      if (index == 0) outcome.gradients = trainer.gradients();
    });
  }
  outcome.parameters = buffers.parameters(buffers.all()).detach().clone();
  return outcome;
}

std::pair<double, double> max_and_mean(const at::Tensor& a, const at::Tensor& b, Range range) {
  const at::Tensor difference =
      (a.slice(0, range.begin, range.end).to(at::kDouble) - b.slice(0, range.begin, range.end))
          .abs();
  return {difference.max().item<double>(), difference.mean().item<double>()};
}

}  // namespace

std::vector<Difference> verify_rank(const Experiment& experiment, const PluginRegistry& registry,
                                    const RunContext& context) {
  const RankInfo& info = context.info;
  set_affinity(experiment.world, info);
  const std::int64_t steps = experiment.train.warmup_steps + experiment.train.steps;
  const auto device = open_rank_device(experiment.world, info);
  const auto group = connect(info, experiment.world.comm, context.run_id, host_identity(), *device);
  Outcome together;
  {
    Trainer trainer(experiment, make_plugins(registry, experiment), *group);
    together = train(trainer, steps);
  }
  group->shutdown();
  if (info.rank != 0) return {};

  // The whole global batch in one forward, by PyTorch's own operators: other kernels, other matrix
  // shapes, other orders of summation, so that nothing but the mathematics is shared.
  Experiment whole = experiment;
  whole.model.kernels = KernelSet::reference;
  whole.world.size = 1;
  whole.train.global_batch = experiment.global_batch();
  whole.train.batch_per_rank = 0;
  whole.train.accumulate = 1;
  whole.optimizer.overlap = false;
  whole.execution = {};
  const auto alone_group =
      connect_thread(make_thread_store(), 0, 1, experiment.world.comm, *device);
  RunPlugins plugins = make_plugins(registry, whole);
  plugins.strategy = std::make_shared<Alone>();
  Trainer trainer(whole, plugins, *alone_group);
  const Outcome alone = train(trainer, steps);
  std::vector<Difference> differences;
  const auto& buffers = trainer.data_parallel().buffers();
  for (int index = buffers.count() - 1; index >= 0; --index) {  // in the order of the forward pass
    Difference difference{.name = buffers.name(index)};
    std::tie(difference.gradient_max, difference.gradient_mean) =
        max_and_mean(together.gradients, alone.gradients, buffers.range(index));
    std::tie(difference.parameter_max, difference.parameter_mean) =
        max_and_mean(together.parameters, alone.parameters, buffers.range(index));
    differences.push_back(difference);
  }
  return differences;
}

}  // namespace ddprun
