// The control groups of this process, whose limits a container sets.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

/// The folders of the groups of this process, and of those above them, that account for
/// `controller` ("cpu", "memory"): of cgroup v2 and of v1. A folder may be missing, or lack the
/// controller's files. `root`: what /proc and /sys lie under.
std::vector<std::filesystem::path> cgroup_folders(const std::string& controller,
                                                  const std::filesystem::path& root = "/");

}  // namespace ddprun
