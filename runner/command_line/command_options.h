// The commands and their options, as CLI11 is told them.
#pragma once

#include "runner/command/request.h"

namespace CLI {
class App;
}

namespace ddprun {

/// What is parsed goes to `request`, which outlives `app`.
void declare_commands(CLI::App& app, Request& request);

}  // namespace ddprun
