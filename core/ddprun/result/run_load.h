// How busy the machine was with others while a run was measured, and how fast it was.
#pragma once

#include <optional>
#include <string>

#include "ddprun/result/run.h"

namespace ddprun {

struct RunLoad {
  /// Of the host where they are the largest, in cores: what other programs took of the ranks' cores
  /// and what the hypervisor gave to other machines. Nothing: it could not be seen.
  std::optional<double> others = {}, stolen = {};
  /// Likewise, what a quota of CPU time held back of the threads in the ranks' cgroup.
  std::optional<double> throttled = {};
  /// HostLoad::sees of rank 0.
  std::string sees = {};
  /// Of the slowest rank, before the run and after it: RankResult::product_gflops.
  std::optional<double> before_gflops = {}, after_gflops = {};

  /// From this share of a core on, figures are called those of a busy machine.
  static constexpr double kBusy = 0.05;
  /// From this share of a core on, a quota is named.
  static constexpr double kThrottled = 0.01;
};

/// `run` is measured.
RunLoad load_of(const Run& run);

/// What other programs and other machines took of the cores of a rank, in cores. Ranks that have
/// the same cores are no others. Nothing: it could not be seen.
std::optional<double> taken_from(const RankResult& rank, const Run& run);

nlohmann::json to_json(const RunLoad& load);

}  // namespace ddprun
