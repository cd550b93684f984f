// Which plugins the contract is tried on.
#pragma once

#include "ddprun/config/registry.h"

namespace ddprun {

/// Those of the search path, and the library that the command line names.
const PluginRegistry& registry();

}  // namespace ddprun
