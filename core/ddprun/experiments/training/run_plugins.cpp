// Makes the plugins of a run by their names, and describes the run to them.
#include "ddprun/experiments/training/run_plugins.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "ddprun/base/ranges.h"
#include "ddprun/config/experiment_check.h"
#include "ddprun/model/model_parameters.h"
#include "ddprun/model/recompute_config.h"
#include "ddprun/optim/named_tensor.h"
#include "ddprun/plugin/ask_plugin.h"

namespace ddprun {

RunPlugins make_plugins(const PluginRegistry& registry, const Experiment& experiment) {
  return {.strategy = make_strategy(registry, experiment.plugin(PluginKind::strategy)),
          .precision = make_precision(registry, experiment.plugin(PluginKind::precision)),
          .attention = make_attention(registry, experiment.plugin(PluginKind::attention))};
}

Plan plan_of(const Experiment& experiment, const RunPlugins& plugins) {
  const ModelConfig& model = training(experiment).model;
  std::vector<NamedTensor> parameters;
  for (const ModelParameter& each : model_parameters(model)) {
    if (!each.trained) continue;
    parameters.push_back(
        {.name = each.name, .tensor = at::empty(each.sizes, at::TensorOptions(at::kMeta))});
  }
  const RunDescription run = describe_run(experiment, *plugins.precision);
  const ParameterLayout layout(parameters, run.dtypes, run.kernels, run.world_size);
  return ask_plan(*plugins.strategy, layout, 0);
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
  const TrainingConfig& config = training(experiment);
  const ModelConfig& model = config.model;
  RunDescription run{.world_size = static_cast<int>(experiment.world.size),
                     .device = experiment.world.device,
                     .compute_capability = experiment.world.device == DeviceKind::cpu
                                               ? 0
                                               : std::numeric_limits<int>::max(),
                     .backend = experiment.world.comm.backend,
                     .execution = config.execution.mode,
                     .micro_batch = micro_batch(experiment),
                     .accumulate = config.train.accumulate,
                     .context_length = model.context_length,
                     .heads = model.heads,
                     .head_dim = model.head_dim(),
                     .d_ff = model.d_ff,
                     .kernels = model.kernels,
                     .recomputed_units = most_units_recomputed(model),
                     .optimizer = config.optimizer};
  return described_with(std::move(run), precision);
}

void check_agreement(const Experiment& experiment, const PluginRegistry& registry,
                     std::initializer_list<Agreement> right, ErrorText text) {
  const Plan plan = plan_of(experiment, make_plugins(registry, experiment));
  if (contains(right, plan.agreement)) return;
  text.got = "strategy " + experiment.plugin(PluginKind::strategy).name + ", " + text.got;
  text.hint = "a run proves what it declares; train.eval shows what it costs";
  refuse(experiment, "strategy", std::move(text));
}

}  // namespace ddprun
