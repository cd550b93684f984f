// Ranks by fork, or in place.
#include "runner/launch/execute.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ddprun/base/error.h"
#include "ddprun/base/failure.h"
#include "ddprun/comm/rendezvous.h"
#include "ddprun/train/affinity.h"
#include "ddprun/train/run_rank.h"
#include "ddprun/train/verify_rank.h"

namespace ddprun {

namespace {

using nlohmann::json;

/// Seconds that ranks of a run that failed wait for one another: on top of the time-out by which
/// the slowest of them notices; and after the last run of a launch, which a launcher may end soon.
constexpr double kAgreementS = 5;
constexpr double kLastAgreementS = 2;

json to_json(const Largest& largest) {
  return {{"value", largest.value}, {"parameter", largest.parameter}};
}

json to_json(const Differences& differences) {
  json out = {{"gradient", to_json(differences.gradient)}, {"update", to_json(differences.update)}};
  if (differences.parameter) out["parameter"] = to_json(*differences.parameter);
  return out;
}

json to_json(const Verification& found) {
  json out = {{"steps", json::array()}, {"parameters", json::array()}, {"faults", found.faults}};
  for (const VerifiedStep& step : found.steps) {
    out["steps"].push_back({{"step", step.step},
                            {"losses", step.losses},
                            {"loss", step.loss},
                            {"loss_one_process", step.loss_one_process},
                            {"differences", nullptr}});
    if (step.differences) out["steps"].back()["differences"] = to_json(*step.differences);
  }
  for (const Differences& each : found.parameters) out["parameters"].push_back(to_json(each));
  return out;
}

struct InPlace {
  Outcome outcome;
  std::optional<FailureKind> failure;
};

InPlace run_in_place(const RankInfo& info, const RankBody& body,
                     const std::function<void(const Progress&)>& on_progress) {
  try {
    return {{Outcome::Status::ok, {}, 0, body(info, on_progress)}, {}};
  } catch (...) {
    const RankError error = describe_current_exception();
    const bool memory = error.kind == FailureKind::out_of_memory;
    return {{memory ? Outcome::Status::out_of_memory : Outcome::Status::failed,
             reason_of(error, info.rank, info.world_size),
             0,
             {}},
            error.kind};
  }
}

/// What every rank of a failed run says, in rank order. Throws CommError, which names the ranks
/// that say nothing within `limit_s`.
std::vector<std::string> failures_of_all(const RankInfo& info, const std::string& run_id,
                                         const std::string& own, double limit_s) {
  const auto all = [](const std::vector<std::string>& texts) { return json(texts).dump(); };
  const std::string topic = "failed " + run_id;
  const std::string texts = decide_in_launch(info, topic, own, limit_s, all);
  if (info.rank == 0) wait_until_heard(info, topic, limit_s);  // it may serve the store
  return json::parse(texts);
}

/// All ranks of a run that failed come here. Where memory ran out on one, that is the run's reason
/// on all; the next run can run if the others say nothing but that a peer was gone. A rank that
/// does not come is named: it is dead or stopped, or its run ended well, and the launch cannot go
/// on.
void agree(const RankInfo& info, const std::string& run_id, double limit_s, InPlace& own) {
  std::vector<std::string> texts;
  try {
    texts = failures_of_all(info, run_id, json({name_of(*own.failure), own.outcome.reason}).dump(),
                            limit_s);
  } catch (const std::exception& error) {
    own.outcome.reason += "\n  the other ranks: " + message_of(error);
    return;
  }
  bool memory = false;
  bool nothing_else = true;
  for (const std::string& text : texts) {
    const json rank = json::parse(text);
    const auto kind = choice_of<FailureKind>(rank.at(0).get<std::string>());
    if (kind == FailureKind::out_of_memory && !std::exchange(memory, true)) {
      own.outcome.status = Outcome::Status::out_of_memory;
      own.outcome.reason = rank.at(1);
    }
    nothing_else =
        nothing_else && kind && (kind == FailureKind::out_of_memory || may_be_a_peers_fault(*kind));
  }
  own.outcome.next_can_run = memory && nothing_else;
}

/// A run whose ranks this process could not start, or not watch: no descriptor, process or memory
/// is left. It is that run's failure alone.
Outcome not_started(const std::exception& error, std::int64_t world_size) {
  const auto* own = dynamic_cast<const Error*>(&error);
  const ErrorText text =
      own != nullptr
          ? own->text()
          : ErrorText{.what = "the ranks could not be started",
                      .where = fmt::format("{} ranks on this host", world_size),
                      .got = error.what(),
                      .expected = "a process and a pipe for each rank",
                      .hint =
                          "fewer ranks, or higher limits: `ulimit -n` of descriptors, `ulimit "
                          "-u` of processes"};
  return {Outcome::Status::failed, Error(text).what(), 0, {}};
}

}  // namespace

Executor::Executor(std::optional<RankInfo> joined, ProgressDisplay& display)
    : joined_(std::move(joined)), display_(display) {
  if (!joined_) signals_ = std::make_unique<SignalWatch>();
}

std::function<void(const Progress&)> Executor::shown_progress() {
  return [this](const Progress& progress) {
    if (reports()) display_.update(progress);
  };
}

Outcome Executor::execute(const WorldConfig& world, const RankBody& body) {
  if (joined_) return run_in_place(*joined_, body, shown_progress()).outcome;
  const auto on_log = [this](int rank, const std::string& level, const std::string& text) {
    display_.message("[rank " + std::to_string(rank) + "] [" + level + "] " + text);
  };
  try {
    return run_ranks(static_cast<int>(world.size), world.comm.timeout_s, body, *signals_,
                     {shown_progress(), on_log});
  } catch (const std::exception& error) {
    return not_started(error, world.size);
  }
}

Outcome Executor::run(const PlannedRun& run, const std::string& run_id, std::int64_t launch_ns,
                      const std::filesystem::path& folder, bool last) {
  const RankBody body = [&](const RankInfo& info, const auto& on_progress) {
    const RunContext context{.info = info,
                             .run_id = run_id,
                             .launch_ns = launch_ns,
                             .folder = folder,
                             .on_progress = on_progress};
    json ranks = json::array();
    for (const RankResult& result : run_rank(run.experiment, *run.registry, context)) {
      ranks.push_back(to_json(result));
    }
    return ranks;
  };
  if (!joined_) return execute(run.experiment.world, body);
  InPlace ended = run_in_place(*joined_, body, shown_progress());
  if (!ended.failure) return std::move(ended.outcome);
  give_back_freed_memory();
  // Now, in short: a launcher may end this rank while it waits.
  const std::string& reason = ended.outcome.reason;
  display_.message(reason.substr(0, reason.find('\n')) + "; asking the other ranks");
  const double timeout_s = run.experiment.world.comm.timeout_s;
  agree(*joined_, run_id, last ? kLastAgreementS : timeout_s + kAgreementS, ended);
  return std::move(ended.outcome);
}

Outcome Executor::verify(const PlannedRun& run, const std::string& run_id) {
  // Between two steps rank 0 computes the whole batch, by slower kernels, and the others wait.
  Experiment experiment = run.experiment;
  experiment.world.comm.timeout_s *= 4.0 * static_cast<double>(experiment.world.size);
  const RankBody body = [&](const RankInfo& info, const auto&) {
    const RunContext context{.info = info, .run_id = run_id};
    return to_json(verify_rank(experiment, *run.registry, context));
  };
  return execute(experiment.world, body);
}

}  // namespace ddprun
