// Checks what one experiment must satisfy beyond the limits of each single option.
#pragma once

#include <string>

#include "ddprun/config/experiment.h"

namespace ddprun {

/// Where the value at a dotted path, or the nearest mapping around it, was written.
std::string origin_of(const ConfigNode& document, const std::string& path);

/// Throws ConfigError if settings contradict each other, or if one has no effect beside the others.
void check_experiment(const Experiment& experiment);

}  // namespace ddprun
