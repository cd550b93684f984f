// Asks plugins whether they can take part, and where one cannot, which others could.
#pragma once

#include <functional>

#include "ddprun/config/experiment.h"
#include "ddprun/config/registry.h"

namespace ddprun {

/// Calls check(experiment). If it throws PluginRefusal, throws that with a hint that also names the
/// installed plugins with any of which, and its defaults, in the place of the one that is there
/// `check` throws no Error: "attention eager or sdpa, or precision fp32". At most three of a kind,
/// and how many more there are.
void check_with_alternatives(const Experiment& experiment, const PluginRegistry& registry,
                             const std::function<void(const Experiment&)>& check);

}  // namespace ddprun
