// Asks a plugin whether it can take part in a run.
#pragma once

#include "ddprun/config/plugin_choice.h"
#include "ddprun/plugin/run_description.h"

namespace ddprun {

/// Throws ConfigError, in the plugin's words, if it cannot take part in that run.
void ask_plugin(const Plugin& plugin, const PluginChoice& choice, const RunDescription& run);

}  // namespace ddprun
