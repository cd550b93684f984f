// What a failed allocation and the kernel's out-of-memory killer are called in a report.
#pragma once

#include <cstdint>
#include <exception>

#include "ddprun/base/error.h"

namespace ddprun {

/// "out of memory: tried to allocate 20.00 GiB on GPU 0, which has 512.00 MiB of 79.10 GiB free",
/// and torch's own words in `got`; of the CPU with what is available. For failures of which
/// says_out_of_memory() is true.
ErrorText memory_error(const std::exception& failure);

/// How many processes the kernel has killed because memory ran out, since it started; 0 if it does
/// not say. A rank that was killed (SIGKILL) while it grew was killed for that.
std::int64_t kernel_memory_kills();

}  // namespace ddprun
