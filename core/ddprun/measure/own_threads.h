// Threads of the core's that compute while no step asks for it: who looks for work that was put off
// must not count them.
#pragma once

#include <cstdint>
#include <map>

namespace ddprun {

/// Notes the calling thread, until the process ends. A thread's number may pass to another one.
void note_own_thread();

/// CPU time of each noted thread so far, nanoseconds, by the thread's number. Any thread.
std::map<int, std::int64_t> own_threads_cpu_ns();

}  // namespace ddprun
