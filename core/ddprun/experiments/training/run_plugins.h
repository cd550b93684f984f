// The three plugins of a run, and the run as plugins are told of it.
#pragma once

#include <initializer_list>
#include <memory>

#include "ddprun/config/registry.h"
#include "ddprun/experiments/training/training_config.h"
#include "ddprun/plugin/run_description.h"

namespace ddprun {

/// One object of each kind, options read: what a rank trains with.
struct RunPlugins {
  std::shared_ptr<Strategy> strategy;
  std::shared_ptr<Precision> precision;
  std::shared_ptr<Attention> attention;
};

/// The plugins that the experiment names. Throws PluginError or
/// ConfigError, as make_strategy() and its siblings do.
RunPlugins make_plugins(const PluginRegistry& registry, const Experiment& experiment);

/// The run that plugins are asked about (Plugin::unsupported()). On GPUs its compute capability is
/// above all that there are: a caller that asks about this host sets that of its devices.
RunDescription describe_run(const Experiment& experiment, Precision& precision);

/// What rank 0 would do with them, without memory for it.
Plan plan_of(const Experiment& experiment, const RunPlugins& plugins);

/// Throws ConfigError if the strategy declares that its ranks agree in a way that is none of
/// `right`. Of `text`, `got` says what its name is followed by; where and hint are added.
void check_agreement(const Experiment& experiment, const PluginRegistry& registry,
                     std::initializer_list<Agreement> right, ErrorText text);

}  // namespace ddprun
