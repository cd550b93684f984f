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

/// The ranks of a host, or some of them.
struct Host {
  double wall_s = 0;
  double own_s = 0;
  std::map<int, CoreTime> cores = {};  // ranks may share them

  void add(const HostLoad& load) {
    wall_s = std::max(wall_s, load.wall_s);
    own_s += load.own_s;
    for (const CoreTime& each : load.cores) cores.emplace(each.core, each);
  }
};

/// In cores.
struct Taken {
  double others = 0, stolen = 0;
};

std::optional<Taken> taken_of(const Host& host) {
  if (host.cores.empty() || host.wall_s < kShortestS) return std::nullopt;
  double busy_s = -host.own_s, stolen_s = 0;
  for (const auto& [core, time] : host.cores) {
    busy_s += time.busy_s;
    stolen_s += time.stolen_s;
  }
  const double error_s = 2 * kTickS * std::sqrt(static_cast<double>(host.cores.size()));
  return Taken{busy_s > error_s ? busy_s / host.wall_s : 0, stolen_s / host.wall_s};
}

std::optional<double> number_of(double gflops) {
  return gflops > 0 ? std::optional(gflops) : std::nullopt;
}

nlohmann::json or_null(const std::optional<double>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

}  // namespace

RunLoad load_of(const Run& run) {
  std::map<std::string, Host> hosts;
  RunLoad out;
  for (const RankResult& rank : run.ranks) {
    hosts[rank.host].add(rank.load);
    if (rank.load.wall_s == 0 || rank.load.throttled_s < 0) continue;
    out.throttled = std::max(out.throttled.value_or(0), rank.load.throttled_s / rank.load.wall_s);
  }
  for (const auto& [name, host] : hosts) {
    const auto taken = taken_of(host);
    if (!taken) continue;
    out.others = std::max(out.others.value_or(0), taken->others);
    out.stolen = std::max(out.stolen.value_or(0), taken->stolen);
  }
  out.sees = run.ranks.front().load.sees;
  const auto slowest = [&run](auto gflops) {
    return number_of(std::ranges::min(run.ranks, {}, gflops).*gflops);
  };
  out.before_gflops = slowest(&RankResult::gflops_before);
  out.after_gflops = slowest(&RankResult::gflops_after);
  return out;
}

std::optional<double> taken_from(const RankResult& rank, const Run& run) {
  Host sharing;
  for (const RankResult& each : run.ranks) {
    if (each.host == rank.host && each.cores == rank.cores) sharing.add(each.load);
  }
  const auto taken = taken_of(sharing);
  return taken ? std::optional(taken->others + taken->stolen) : std::nullopt;
}

nlohmann::json to_json(const RunLoad& load) {
  return {{"others", or_null(load.others)},
          {"stolen", or_null(load.stolen)},
          {"throttled", or_null(load.throttled)},
          {"sees", load.sees},
          {"before_gflops", or_null(load.before_gflops)},
          {"after_gflops", or_null(load.after_gflops)}};
}

}  // namespace ddprun
