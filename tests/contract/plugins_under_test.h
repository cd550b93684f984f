// Which plugins the contract is tried on.
#pragma once

#include "ddprun/config/experiment.h"
#include "ddprun/config/registry.h"

namespace ddprun {

/// Those of the search path, and the library that the command line names.
const PluginRegistry& registry();

/// Gives the plugin that the command line names the options that stand behind it there.
void give_options(Experiment& experiment);

}  // namespace ddprun
