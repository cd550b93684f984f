// The JSON Schema of experiment files: keys, types, limits and names, for editors.
#pragma once

#include "ddprun/config/registry.h"
#include "ddprun/config/runnable_kind.h"
#include "ddprun/config/schema/options_schema.h"

namespace ddprun {

/// What files of these kinds may say, with the plugins of the registry. It refuses what
/// load_experiments() and make_plugin() refuse of keys, types, limits and names, and nothing that
/// they accept, but for values that a sweep replaces: these are checked, too. Of a range in a sweep
/// it checks the first value alone. Throws PluginError if a plugin cannot be made.
Schema experiment_schema(const Kinds& kinds, const PluginRegistry& registry);

}  // namespace ddprun
