// The one list of all kinds of experiment. Whoever needs a kind gets it from here, and none by
// name.
#pragma once

#include <string>

#include "ddprun/config/runnable_kind.h"

namespace ddprun {

/// All kinds, training first. Each lives as long as the process.
const Kinds& experiment_kinds();

/// For what is read from a result. Throws Error if no kind has that name.
const RunnableKind& kind_named(const std::string& name);

}  // namespace ddprun
