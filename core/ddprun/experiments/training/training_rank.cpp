// What training asks of plugins and machine, and what its ranks do.
#include <ATen/ops/empty.h>

#include "ddprun/config/experiment_check.h"
#include "ddprun/device/device_library.h"
#include "ddprun/experiments/training/run_plugins.h"
#include "ddprun/experiments/training/run_rank.h"
#include "ddprun/experiments/training/training.h"
#include "ddprun/experiments/training/training_check.h"
#include "ddprun/experiments/training/verify_rank.h"
#include "ddprun/model/model_parameters.h"
#include "ddprun/optim/named_tensor.h"
#include "ddprun/parallel/data_parallel.h"
#include "ddprun/plugin/ask_plugin.h"

namespace ddprun {

namespace {

void ask_plugins(const RunPlugins& plugins, const Experiment& experiment,
                 const RunDescription& run) {
  ask_plugin(*plugins.precision, run, experiment.precision.options.origin);
  ask_plugin(*plugins.strategy, run, experiment.strategy.options.origin);
  ask_plugin(*plugins.attention, run, experiment.attention.options.origin);
}

/// Without memory for what is planned.
Plan plan_of(const Experiment& experiment, const RunPlugins& plugins) {
  std::vector<NamedTensor> parameters;
  for (const ModelParameter& each : model_parameters(experiment.model)) {
    if (!each.trained) continue;
    parameters.push_back(
        {.name = each.name, .tensor = at::empty(each.sizes, at::TensorOptions(at::kMeta))});
  }
  const ParameterLayout layout(parameters, plugins.precision->dtypes().buffers,
                               experiment.model.kernels, static_cast<int>(experiment.world.size));
  return plugins.strategy->plan(layout, 0);
}

}  // namespace

const KindKeys& Training::keys() const {
  static const KindKeys keys = {
      .sections = {"model", "data", "world", "optimizer", "train", "execution", "profile",
                   "output"},
      .plugins = {PluginKind::strategy, PluginKind::precision, PluginKind::attention}};
  return keys;
}

void Training::check(const Experiment& experiment) const { check_training(experiment); }

void Training::check_plugins(const Experiment& experiment, const PluginRegistry& registry) const {
  const RunPlugins plugins = make_plugins(registry, experiment);
  ask_plugins(plugins, experiment, describe_run(experiment, *plugins.precision));
  if (!experiment.optimizer.overlap) return;
  check_overlap(plan_of(experiment, plugins), *plugins.precision,
                origin_of(experiment.document, "optimizer.overlap"));
}

void Training::check_machine(const Experiment& experiment, const PluginRegistry& registry,
                             std::int64_t /*local_ranks*/) const {
  if (experiment.world.device == DeviceKind::cpu) return;  // check_plugins() has asked all there is
  const RunPlugins plugins = make_plugins(registry, experiment);
  RunDescription run = describe_run(experiment, *plugins.precision);
  run.compute_capability = compute_capability(run.device);
  ask_plugins(plugins, experiment, run);
}

std::vector<RankResult> Training::run_rank(const Experiment& experiment,
                                           const PluginRegistry& registry,
                                           const RunContext& context) const {
  return ddprun::run_rank(experiment, registry, context);
}

RunnableKind::VerifyRank Training::verify_rank() const {
  return
      [](const Experiment& experiment, const PluginRegistry& registry, const RunContext& context) {
        return to_json(ddprun::verify_rank(experiment, registry, context));
      };
}

}  // namespace ddprun
