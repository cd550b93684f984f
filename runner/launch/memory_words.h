// How a report words a failed allocation, and what the kernel's out-of-memory killer did.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <exception>

#include "ddprun/base/error.h"

namespace ddprun {

/// "out of memory: tried to allocate 20.00 GiB on GPU 0, which has 512.00 MiB of 79.10 GiB free",
/// and torch's own words in `got`; for the CPU it says what is available. What may help, the kind
/// of the experiment knows. Only for failures of which says_out_of_memory() is true.
ErrorText memory_error(const std::exception& failure);

/// at_memory_limit(), of another process; false also where the system does not say.
bool near_memory_limit(pid_t process);

/// How many processes the kernel has killed since it started because memory ran out; 0 if it does
/// not say. If a rank was killed (SIGKILL) while this number grew, that was the reason.
std::int64_t kernel_memory_kills();

}  // namespace ddprun
