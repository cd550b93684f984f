// Reads /proc/meminfo and the files of cgroups.
#include "ddprun/base/machine_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>

namespace ddprun {

namespace fs = std::filesystem;

namespace {

constexpr std::int64_t kUnknown = std::numeric_limits<std::int64_t>::max();

std::int64_t of_machine(const fs::path& root, const char* key) {
  const auto kib = number_in(root / "proc/meminfo", key);
  return kib ? *kib * 1024 : kUnknown;
}

/// The limit of one group: memory.max ("max": none) or memory.limit_in_bytes.
std::int64_t limit_of(const fs::path& folder) {
  const auto limit = number_in(folder / "memory.max");
  return limit ? *limit : number_in(folder / "memory.limit_in_bytes").value_or(kUnknown);
}

/// What a group holds that it cannot drop.
std::int64_t held_by(const fs::path& folder) {
  const auto current = number_in(folder / "memory.current");
  const std::int64_t held =
      current ? *current : number_in(folder / "memory.usage_in_bytes").value_or(0);
  const fs::path details = folder / "memory.stat";
  const auto dropped = number_in(details, current ? "inactive_file" : "total_inactive_file");
  return std::max<std::int64_t>(0, held - dropped.value_or(0));
}

}  // namespace

std::optional<std::int64_t> number_in(const fs::path& file, const std::string& key) {
  std::ifstream in(file);
  std::int64_t number = 0;
  if (key.empty()) return in >> number ? std::optional(number) : std::nullopt;
  for (std::string word; in >> word; std::getline(in, word)) {
    if (word == key && in >> number) return number;
  }
  return {};
}

std::int64_t total_memory(const fs::path& root) {
  std::int64_t total = of_machine(root, "MemTotal:");
  for (const fs::path& folder : cgroup_folders("memory", root)) {
    total = std::min(total, limit_of(folder));
  }
  return total;
}

std::int64_t available_memory(const fs::path& root) {
  std::int64_t available = of_machine(root, "MemAvailable:");
  for (const fs::path& folder : cgroup_folders("memory", root)) {
    const std::int64_t limit = limit_of(folder);
    if (limit == kUnknown) continue;
    available = std::min(available, std::max<std::int64_t>(0, limit - held_by(folder)));
  }
  return available;
}

}  // namespace ddprun
