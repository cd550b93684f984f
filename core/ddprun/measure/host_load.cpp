// Times of cores by /proc/stat, what quotas held back by cpu.stat.
#include "ddprun/measure/host_load.h"

#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "ddprun/base/clock.h"
#include "ddprun/base/machine_memory.h"
#include "ddprun/base/ranges.h"
#include "ddprun/measure/kernel_clock.h"

namespace ddprun {

namespace {

/// Whether a file system in user space has put its own file there: a container's.
bool of_container(const std::filesystem::path& stat) {
  constexpr long kFuse = 0x65735546;  // FUSE_SUPER_MAGIC
  struct statfs of_file = {};
  return statfs(stat.c_str(), &of_file) == 0 && static_cast<long>(of_file.f_type) == kFuse;
}

}  // namespace

std::vector<CoreTime> core_times(const std::string& stat, const std::vector<int>& cores) {
  const double tick_s = 1.0 / static_cast<double>(sysconf(_SC_CLK_TCK));
  std::vector<CoreTime> out;
  std::istringstream in(stat);
  bool counts = false;
  for (std::string line; std::getline(in, line) && line.starts_with("cpu");) {
    std::istringstream fields(line.substr(3));
    int core = -1;
    double user = 0, nice = 0, system = 0, idle = 0, io_wait = 0, irq = 0, soft_irq = 0, steal = 0;
    if (line.at(3) == ' ' || !(fields >> core >> user >> nice >> system >> idle)) continue;
    fields >> io_wait >> irq >> soft_irq >> steal;
    counts = counts || user + nice + system + idle > 0;
    if (!contains(cores, core)) continue;
    out.push_back({core, (user + nice + system) * tick_s, steal * tick_s});
  }
  return counts ? out : std::vector<CoreTime>();
}

double throttled_seconds(const std::filesystem::path& root) {
  double seconds = 0;
  bool seen = false;
  std::set<std::filesystem::path> counted;  // a hierarchy may be mounted twice
  for (const std::filesystem::path& folder : cgroup_folders("cpu", root)) {
    std::error_code ignored;  // what cannot be looked at counts nothing
    const auto file = std::filesystem::weakly_canonical(folder / "cpu.stat", ignored);
    if (!std::filesystem::exists(file, ignored) || !counted.insert(file).second) continue;
    seen = true;
    const auto us = number_in(file, "throttled_usec"), ns = number_in(file, "throttled_time");
    seconds += static_cast<double>(us.value_or(0)) * 1e-6 + to_s(ns.value_or(0));
  }
  return seen ? seconds : -1;
}

HostLoad LoadMeter::now() const {
  const std::filesystem::path stat = root_ / "proc/stat";
  std::ifstream in(stat);
  HostLoad load{to_s(now_ns()), to_s(process_cpu_ns()),
                core_times(std::string(std::istreambuf_iterator<char>(in), {}), cores_)};
  load.throttled_s = throttled_seconds(root_);
  if (!load.cores.empty()) load.sees = of_container(stat) ? "this container" : "the machine";
  return load;
}

HostLoad LoadMeter::end() const {
  HostLoad load = now();
  load.wall_s -= begin_.wall_s;
  load.own_s -= begin_.own_s;
  const bool seen = begin_.throttled_s >= 0 && load.throttled_s >= 0;
  load.throttled_s = seen ? load.throttled_s - begin_.throttled_s : -1;
  std::erase_if(load.cores, [this](CoreTime& each) {
    const auto before = std::ranges::find(begin_.cores, each.core, &CoreTime::core);
    if (before == begin_.cores.end()) return true;  // it came meanwhile
    each.busy_s -= before->busy_s;
    each.stolen_s -= before->stolen_s;
    return false;
  });
  return load;
}

}  // namespace ddprun
