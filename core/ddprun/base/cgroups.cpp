// Reads /proc/self/cgroup.
#include "ddprun/base/machine_memory.h"

#include <algorithm>
#include <fstream>

#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"

namespace ddprun {

namespace fs = std::filesystem;

namespace {

/// Where the hierarchy of a line of /proc/self/cgroup may be mounted: "0::/a" is v2's,
/// "2:cpu,cpuacct:/a" one of v1; empty: it does not account for the controller.
std::vector<std::string> mounts_of(const std::string& line, const std::string& controller) {
  const std::size_t first = line.find(':'), second = line.find(':', first + 1);
  const std::string controllers = line.substr(first + 1, second - first - 1);
  if (controllers.empty()) return {".", "unified"};
  if (!contains(split_at(controllers, ','), controller)) return {};
  return {controllers, controller};
}

}  // namespace

std::vector<fs::path> cgroup_folders(const std::string& controller, const fs::path& root) {
  std::vector<fs::path> folders;
  std::ifstream in(root / "proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    if (std::ranges::count(line, ':') < 2) continue;
    const fs::path own = line.substr(line.find('/') + 1);
    for (const std::string& mount : mounts_of(line, controller)) {
      // A container may see its own group as the root, under the path that it has outside.
      for (fs::path group = own;; group = group.parent_path()) {
        folders.push_back(root / "sys/fs/cgroup" / mount / group);
        if (group.empty()) break;
      }
    }
  }
  return folders;
}

}  // namespace ddprun
