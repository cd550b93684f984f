// Host by host: the cores of its ranks, less the ranks' own time.
#include "ddprun/result/run_load.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace ddprun {

namespace {

/// Of /proc/stat. Each core's count is off by one or so, up or down.
constexpr double kTickS = 0.01;
/// In less time than that a tick may fall on all cores at once.
constexpr double kShortestS = 10 * kTickS;

/// The ranks of a host.
struct Host {
  double wall_s = 0;
  double own_s = 0;
  std::map<int, CoreTime> cores = {};  // ranks may share them
};

std::optional<double> number_of(double gflops) {
  return gflops > 0 ? std::optional(gflops) : std::nullopt;
}

nlohmann::json or_null(const std::optional<double>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

}  // namespace

RunLoad load_of(const Run& run) {
  std::map<std::string, Host> hosts;
  for (const RankResult& rank : run.ranks) {
    Host& host = hosts[rank.host];
    host.wall_s = std::max(host.wall_s, rank.load.wall_s);
    host.own_s += rank.load.own_s;
    for (const CoreTime& each : rank.load.cores) host.cores.emplace(each.core, each);
  }
  RunLoad out;
  for (const auto& [name, host] : hosts) {
    if (host.cores.empty() || host.wall_s < kShortestS) continue;
    double busy_s = -host.own_s, stolen_s = 0;
    for (const auto& [core, time] : host.cores) {
      busy_s += time.busy_s;
      stolen_s += time.stolen_s;
    }
    const double error_s = 2 * kTickS * std::sqrt(static_cast<double>(host.cores.size()));
    const double others = busy_s > error_s ? busy_s / host.wall_s : 0;
    out.others = std::max(out.others.value_or(0), others);
    out.stolen = std::max(out.stolen.value_or(0), stolen_s / host.wall_s);
  }
  out.sees = run.ranks.front().load.sees;
  const auto slowest = [&run](auto gflops) {
    return number_of(std::ranges::min(run.ranks, {}, gflops).*gflops);
  };
  out.before_gflops = slowest(&RankResult::gflops_before);
  out.after_gflops = slowest(&RankResult::gflops_after);
  return out;
}

nlohmann::json to_json(const RunLoad& load) {
  return {{"others", or_null(load.others)},
          {"stolen", or_null(load.stolen)},
          {"sees", load.sees},
          {"before_gflops", or_null(load.before_gflops)},
          {"after_gflops", or_null(load.after_gflops)}};
}

}  // namespace ddprun
