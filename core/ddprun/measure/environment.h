// What machine and software a result was measured on, and which cores this process may use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

/// Facts for result.json, in order: cpu model, cores, simd, products (of bfloat16), float32
/// products, memory, kernel, hostname, torch, gloo, compiler, build type, ddprun version, time;
/// then set_variables(). Throws as bf16_products().
std::vector<std::pair<std::string, std::string>> describe_environment();
/// One of them: "torch"; "unknown" if there is none of that name.
std::string environment_fact(const std::string& name);

/// The name of kernels::product_path(). Throws ConfigError if DDPRUN_PRODUCTS names none that this
/// CPU has.
std::string bf16_products();

/// The cores in this thread's affinity (sched_getaffinity). Throws std::system_error.
std::vector<int> usable_cores();
/// The CPU time that this process's cgroups allow it a second, in cores: the smallest quota among
/// its own and those above (v2's cpu.max, v1's cpu.cfs_quota_us). It says how much, and not where:
/// processes under a quota may run on all their cores. Nothing: there is no limit. `root`: what
/// /proc and /sys lie under.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");
/// How many threads may run at a time: one a usable core, and no more than the quota has room for;
/// at least 1.
int usable_threads();

/// The bytes that the first line "KEY: 16384 kB" of a file under /proc states; 0 if there is no
/// such line.
std::int64_t proc_bytes(const char* file, const std::string& key);

/// Peak resident set of this process in bytes (VmHWM).
std::int64_t peak_resident_bytes();

}  // namespace ddprun
