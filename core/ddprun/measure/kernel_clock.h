// Times asked of the kernel without a library between: a clock that a plugin cannot replace, and
// what a process has computed.
#pragma once

#include <cstdint>

namespace ddprun {

/// The steady clock of now_ns(), by a system call of its own. Nanoseconds.
std::int64_t kernel_clock_ns();

/// CPU time of a thread of this process, by its number; 0 if it is gone. Nanoseconds.
std::int64_t thread_cpu_ns(int thread);

/// CPU time of all threads of this process so far, those that ended included. Nanoseconds.
std::int64_t process_cpu_ns();

}  // namespace ddprun
