// Makes the plugins of a run by their names, and describes the run to them.
#include "ddprun/experiments/training/run_plugins.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "ddprun/model/model_parameters.h"
#include "ddprun/model/recompute_config.h"
#include "ddprun/parallel/named_plugins.h"

namespace ddprun {

RunPlugins make_plugins(const PluginRegistry& registry, const Experiment& experiment) {
  const auto& [strategy, precision, attention] =
      std::tie(experiment.strategy, experiment.precision, experiment.attention);
  return {.strategy = with_named_failures(make_strategy(registry, strategy), strategy.name),
          .precision = with_named_failures(make_precision(registry, precision), precision.name),
          .attention = with_named_failures(make_attention(registry, attention), attention.name)};
}

namespace {

std::int64_t most_units_recomputed(const ModelConfig& model) {
  std::int64_t most = 0;
  for (const RecomputedBlocks& group : recompute_plan(model.recompute, model.layers)) {
    most = std::max(most, group.size());
  }
  return most * model.units_per_block();
}

}  // namespace

RunDescription describe_run(const Experiment& experiment, Precision& precision) {
  const ModelConfig& model = experiment.model;
  return {.world_size = static_cast<int>(experiment.world.size),
          .device = experiment.world.device,
          .compute_capability =
              experiment.world.device == DeviceKind::cpu ? 0 : std::numeric_limits<int>::max(),
          .backend = experiment.world.comm.backend,
          .execution = experiment.execution.mode,
          .micro_batch = experiment.micro_batch(),
          .accumulate = experiment.train.accumulate,
          .context_length = model.context_length,
          .heads = model.heads,
          .head_dim = model.head_dim(),
          .d_ff = model.d_ff,
          .compute_dtype = precision.dtypes().buffers.compute,
          .scales_loss = precision.loss_scaler() != nullptr,
          .kernels = model.kernels,
          .recomputed_units = most_units_recomputed(model),
          .optimizer = experiment.optimizer};
}

}  // namespace ddprun
