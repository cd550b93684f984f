// Times asked of the kernel without a library between: a clock that a plugin cannot replace, and
// what a process has computed.
#pragma once

#include <cstdint>
#include <map>

namespace ddprun {

/// The steady clock of now_ns(), by a system call of its own. Nanoseconds.
std::int64_t kernel_clock_ns();

/// CPU time of a thread of this process, by its number; 0 if it is gone. Nanoseconds.
std::int64_t thread_cpu_ns(int thread);

/// CPU time of all threads of this process so far, those that ended included. Nanoseconds.
std::int64_t process_cpu_ns();

/// Notes the calling thread, until the process ends: one of the core's that computes while no step
/// asks for it. Who looks for work that was put off must not count these. A thread's number may
/// pass to another one.
void note_own_thread();

/// CPU time of each noted thread so far, nanoseconds, by the thread's number. Any thread.
std::map<int, std::int64_t> own_threads_cpu_ns();

}  // namespace ddprun
