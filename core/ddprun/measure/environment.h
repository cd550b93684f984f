// What machine and software a result was measured on, and this process's core affinity.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

/// Facts for result.json, in order: cpu model, cores, simd, memory, kernel, hostname, torch, gloo,
/// compiler, build type, ddprun version, time.
std::vector<std::pair<std::string, std::string>> describe_environment();

/// The cores this thread may use (sched_getaffinity); of these the first n if the cgroup's quota
/// (v2, cpu.max) is n cores.
std::vector<int> usable_cores();

/// Restricts this process, and threads it starts later, to its share of usable_cores(): contiguous,
/// disjoint if there are enough; else core local_rank % cores. Returns the cores taken.
std::vector<int> pin_to_share(int local_rank, int local_size);

/// Bytes of the first line "KEY: 16384 kB" of a file under /proc; 0 if it has none.
std::int64_t proc_bytes(const char* file, const std::string& key);

/// Peak resident set of this process in bytes (VmHWM).
std::int64_t peak_resident_bytes();

}  // namespace ddprun
