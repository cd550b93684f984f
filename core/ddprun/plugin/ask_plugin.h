// Asks a plugin whether it can take part in a run.
#pragma once

#include <string>

#include "ddprun/base/error.h"
#include "ddprun/plugin/precision.h"
#include "ddprun/plugin/run_description.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// A plugin cannot take part in an experiment that is otherwise valid.
class PluginRefusal : public ConfigError {
 public:
  using ConfigError::ConfigError;
  ~PluginRefusal() override;
};

/// `run` with what the precision decides of it. The others are asked after it.
RunDescription described_with(RunDescription run, Precision& precision);

/// strategy.plan(). What it throws names it.
Plan ask_plan(const Strategy& strategy, const ParameterLayout& layout, int rank);

/// Throws PluginRefusal, in the plugin's words, if it cannot take part in that run. `where`: where
/// it was chosen.
void ask_plugin(const Plugin& plugin, const RunDescription& run, const std::string& where);

}  // namespace ddprun
