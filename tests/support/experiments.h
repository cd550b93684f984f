// Experiments small enough for tests: a two-layer transformer on random tokens.
#pragma once

#include <memory>
#include <string>

#include "ddprun/experiments/training/run_plugins.h"
#include "ddprun/experiments/training/training.h"

namespace ddprun::test {

/// The folder of the plugins built with the tests.
inline std::string plugin_folder() { return DDPRUN_BUILD_DIR "/lib/ddprun/plugins"; }

/// 8 sequences of 16 tokens a step on `world_size` ranks; plain SGD.
inline Experiment small_experiment(int world_size) {
  Experiment experiment;
  experiment.kind = &training();
  experiment.name = "test";
  experiment.model = model_preset("tiny");
  experiment.model.vocab_size = 64;
  experiment.model.context_length = 16;
  experiment.model.d_model = 32;
  experiment.model.d_ff = 64;
  experiment.model.layers = 2;
  experiment.model.heads = 2;
  experiment.data.source = DataKind::random;
  experiment.world.size = world_size;
  experiment.train.global_batch = 8;
  experiment.train.warmup_steps = 0;
  experiment.train.steps = 20;
  experiment.optimizer.name = OptimizerKind::sgd;
  experiment.optimizer.lr = 0.05;
  experiment.optimizer.weight_decay = 0.0;
  experiment.strategy.kind = PluginKind::strategy;
  experiment.precision.kind = PluginKind::precision;
  experiment.attention.kind = PluginKind::attention;
  return experiment;
}

/// The plugins of the experiment, but for the strategy: that is the caller's, which outlives them.
inline RunPlugins plugins_with(Strategy& strategy, const PluginRegistry& registry,
                               const Experiment& experiment) {
  return {.strategy = std::shared_ptr<Strategy>(std::shared_ptr<void>(), &strategy),
          .precision = make_precision(registry, experiment.precision),
          .attention = make_attention(registry, experiment.attention)};
}

}  // namespace ddprun::test
