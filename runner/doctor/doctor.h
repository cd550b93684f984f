// `ddprun doctor`: tries out what this machine offers to runs.
#pragma once

#include "runner/command/request.h"

namespace ddprun {

/// Prints a table, or JSON with --json. Returns 0, or 1 if a finding is `failed`.
int doctor_command(const Request& request);

}  // namespace ddprun
