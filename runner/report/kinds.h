// Finds kinds of experiment by name, for rows that are read from a file.
#pragma once

#include <string>

#include "ddprun/result/experiment_kind.h"

namespace ddprun {

/// Throws Error if no kind has that name.
const ExperimentKind& kind_named(const std::string& name);

}  // namespace ddprun
