// How much memory there is, the machine's or what a container leaves of it, and the control groups
// by which it does.
//
// Family: machine_memory.cpp cgroups.cpp
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

/// The number behind the first word of a line, `key`, in a file ("MemTotal:"); nothing if there is
/// none. Of a file without words, `key` is empty.
std::optional<std::int64_t> number_in(const std::filesystem::path& file,
                                      const std::string& key = {});

/// The machine's memory (MemTotal), or the least limit of this process's cgroups if that is less;
/// no limit where neither is known. In bytes, as all here. `root`: what /proc and /sys lie under.
std::int64_t total_memory(const std::filesystem::path& root = "/");

/// What can be had without taking it from others: MemAvailable, or what a cgroup's limit leaves if
/// that is less. Pages of files that a group could drop count as free.
std::int64_t available_memory(const std::filesystem::path& root = "/");

/// The folders of the groups of this process, and of those above them, that account for
/// `controller` ("cpu", "memory"): of cgroup v2 and of v1. A folder may be missing, or lack the
/// controller's files. `root`: what /proc and /sys lie under.
std::vector<std::filesystem::path> cgroup_folders(const std::string& controller,
                                                  const std::filesystem::path& root = "/");

}  // namespace ddprun
