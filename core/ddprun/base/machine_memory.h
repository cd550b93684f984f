// How much memory there is: the machine's, or what a container leaves of it.
#pragma once

#include <cstdint>
#include <filesystem>

namespace ddprun {

/// The machine's memory (MemTotal), or the least limit of this process's cgroups if that is less;
/// no limit where neither is known. In bytes, as all here. `root`: what /proc and /sys lie under.
std::int64_t total_memory(const std::filesystem::path& root = "/");

/// What can be had without taking it from others: MemAvailable, or what a cgroup's limit leaves if
/// that is less. Pages of files that a group could drop count as free.
std::int64_t available_memory(const std::filesystem::path& root = "/");

}  // namespace ddprun
