// Ranks by fork, or in place.
#include "runner/execute.h"

#include <spdlog/spdlog.h>

#include "ddprun/plugin/error.h"

namespace ddprun {

namespace {

using nlohmann::json;

json differences_json(const std::vector<Difference>& differences) {
  json out = json::array();
  for (const Difference& d : differences) {
    out.push_back({{"name", d.name},
                   {"gradient_max", d.gradient_max},
                   {"gradient_mean", d.gradient_mean},
                   {"parameter_max", d.parameter_max},
                   {"parameter_mean", d.parameter_mean}});
  }
  return out;
}

Outcome run_in_place(const RankInfo& info, const RankBody& body,
                     const std::function<void(const Progress&)>& on_progress) {
  try {
    return {Outcome::Status::ok, {}, 0, body(info, on_progress)};
  } catch (...) {
    const RankError error = describe_current_exception();
    const bool memory = error.type == "out_of_memory";
    return {memory ? Outcome::Status::out_of_memory : Outcome::Status::failed,
            "rank " + std::to_string(info.rank) + " failed: " + error.text,
            0,
            {}};
  }
}

}  // namespace

Executor::Executor(std::optional<RankInfo> joined, ProgressDisplay& display)
    : joined_(std::move(joined)), display_(display) {
  if (!joined_) signals_ = std::make_unique<SignalWatch>();
}

Outcome Executor::execute(std::int64_t world_size, const RankBody& body) {
  const auto on_progress = [this](const Progress& progress) {
    if (reports()) display_.update(progress);
  };
  if (joined_) return run_in_place(*joined_, body, on_progress);
  const auto on_log = [this](int rank, const std::string& level, const std::string& text) {
    display_.message("[rank " + std::to_string(rank) + "] [" + level + "] " + text);
  };
  return run_ranks(static_cast<int>(world_size), body, *signals_, {on_progress, on_log});
}

Outcome Executor::run(const PlannedRow& row, const std::string& run_id, std::int64_t launch_ns,
                      const std::filesystem::path& folder) {
  const RankBody body = [&](const RankInfo& info, const auto& on_progress) {
    json ranks = json::array();
    for (const RankResult& result :
         run_rank(row.experiment, *row.registry, info, run_id, launch_ns, folder, on_progress)) {
      ranks.push_back(to_json(result));
    }
    return ranks;
  };
  return execute(row.experiment.world.size, body);
}

Outcome Executor::verify(const PlannedRow& row, const std::string& run_id) {
  const RankBody body = [&](const RankInfo& info, const auto&) {
    return differences_json(verify_rank(row.experiment, *row.registry, info, run_id));
  };
  return execute(row.experiment.world.size, body);
}

ProgressDisplay::Mode display_mode(const Request& request, const Terminal& terminal, bool reports) {
  if (request.quiet || !reports) return ProgressDisplay::Mode::silent;
  if (terminal.interactive) return ProgressDisplay::Mode::bar;
  return request.verbosity > 0 ? ProgressDisplay::Mode::verbose : ProgressDisplay::Mode::plain;
}

}  // namespace ddprun
