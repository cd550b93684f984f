// Experiments small enough for tests: a two-layer transformer on random tokens.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ddprun/experiments/training/run_plugins.h"
#include "ddprun/experiments/training/training.h"

namespace ddprun::test {

/// The folder of the plugins built with the tests.
inline std::string plugin_folder() { return DDPRUN_BUILD_DIR "/lib/ddprun/plugins"; }

/// 8 sequences of 16 tokens a step on `world_size` ranks; plain SGD, float32, attention eager.
inline Experiment small_experiment(int world_size) {
  Experiment experiment(training());
  experiment.name = "test";
  experiment.world.size = world_size;
  experiment.plugin(PluginKind::precision).name = "fp32";
  experiment.plugin(PluginKind::attention).name = "eager";
  TrainingConfig& config = training(experiment);
  config.model = model_preset("tiny");
  config.model.vocab_size = 64;
  config.model.context_length = 16;
  config.model.d_model = 32;
  config.model.d_ff = 64;
  config.model.layers = 2;
  config.model.heads = 2;
  config.data.source = DataKind::random;
  config.train.global_batch = 8;
  config.train.warmup_steps = 0;
  config.train.steps = 20;
  config.optimizer.name = OptimizerKind::sgd;
  config.optimizer.lr = 0.05;
  config.optimizer.weight_decay = 0.0;
  return experiment;
}

/// Notes the order of gradients, and makes none of them a mean.
class Listener : public Strategy {
 public:
  void on_gradient(int index) override { order.push_back(index); }
  void finish_backward() override {}
  std::vector<int> order;
};

/// The plugins of the experiment, but for the strategy: that is the caller's, which outlives them.
inline RunPlugins plugins_with(Strategy& strategy, const PluginRegistry& registry,
                               const Experiment& experiment) {
  return {.strategy = std::shared_ptr<Strategy>(std::shared_ptr<void>(), &strategy),
          .precision = make_precision(registry, experiment.plugin(PluginKind::precision)),
          .attention = make_attention(registry, experiment.plugin(PluginKind::attention))};
}

}  // namespace ddprun::test
