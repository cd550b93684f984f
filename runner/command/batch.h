// The run command: all experiments of all files, one table, a result folder a file.
#pragma once

#include "runner/command/request.h"

namespace ddprun {

/// Plans everything, runs what may run, reports. Returns the exit status: 0 done, 1 a row failed,
/// 128 + signal when interrupted. Files named one by one must all be valid, else nothing runs and
/// the status is 2; a folder's invalid files become failed rows. Throws ddprun::Error for what
/// concerns no single row.
int run_batch(const Request& request);

}  // namespace ddprun
