// Checks what an experiment that trains must satisfy beyond the limits of each single option.
#pragma once

#include "ddprun/config/experiment.h"

namespace ddprun {

/// Throws ConfigError if settings contradict each other, or if one has no effect beside the others.
void check_training(const Experiment& experiment);

}  // namespace ddprun
