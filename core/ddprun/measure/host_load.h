// Who else took the cores of a process while it measured.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

/// Seconds that a core was busy with programs, and that the hypervisor gave to other machines, as
/// /proc/stat counts them, in ticks of 10 ms. Time in interrupts is neither.
struct CoreTime {
  int core = 0;
  double busy_s = 0;
  double stolen_s = 0;
};

/// The cores of a process from one moment to another.
struct HostLoad {
  double wall_s = 0;
  double own_s = 0;  ///< CPU time of this process
  /// None where /proc/stat counts nothing.
  std::vector<CoreTime> cores = {};
  /// Whose time /proc/stat has: "the machine", "this container" (lxcfs), or "nothing".
  std::string sees = "nothing";
  double throttled_s = -1;  ///< of throttled_seconds(); -1: it was not seen at one of the moments
};

/// Measures the load of some cores, which this process may share with others. Costs a reading of
/// /proc/stat at its begin and at its end.
class LoadMeter {
 public:
  /// `root`: what /proc and /sys lie under.
  explicit LoadMeter(std::vector<int> cores, std::filesystem::path root = "/")
      : cores_(std::move(cores)), root_(std::move(root)) {
    begin();
  }

  void begin() { begin_ = now(); }
  /// Since the last begin().
  HostLoad end() const;

 private:
  HostLoad now() const;

  std::vector<int> cores_;
  std::filesystem::path root_;
  HostLoad begin_;
};

/// For how long quotas of this process's cgroups have held their threads back, whoever's they are,
/// on all cores together, since the groups were made; -1: it cannot be seen. `root`:
/// what /proc and /sys lie under.
double throttled_seconds(const std::filesystem::path& root = "/");

/// The lines of a text like /proc/stat that are of `cores`; none if they count nothing at all.
std::vector<CoreTime> core_times(const std::string& stat, const std::vector<int>& cores);

}  // namespace ddprun
