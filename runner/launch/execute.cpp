// Ranks by fork, or in place.
#include "runner/launch/execute.h"

#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>
#include <utility>

#include "ddprun/base/clock.h"
#include "ddprun/comm/launch/rendezvous.h"
#include "ddprun/config/registry.h"
#include "ddprun/rank/heap.h"
#include "runner/launch/joined_failure.h"
#include "runner/launch/progress_watch.h"
#include "runner/launch/rank_process.h"

namespace ddprun {

namespace {

using nlohmann::json;

/// Seconds that ranks of a run that failed wait for one another: on top of the time-out by which
/// the slowest of them notices; and after the last run of a launch, which a launcher may end soon.
constexpr double kAgreementS = 5;
constexpr double kLastAgreementS = 2;

/// As long as it lives: a rank of a launch that was joined ends, and says so, if its own work does
/// not get on. Nobody else can see it.
class OwnProgress {
 public:
  OwnProgress(const LaunchBoard& board, int rank, double limit_s)
      : thread_([&board, rank, limit_s](const std::stop_token& end) {
          ProgressWatch watch(1, limit_s);
          std::mutex mutex;
          std::unique_lock lock(mutex);
          std::condition_variable_any ended;
          while (!ended.wait_for(lock, end, std::chrono::milliseconds(500), [] { return false; }) &&
                 !end.stop_requested()) {
            const RankStatus status = board.status(rank);
            const std::int64_t now = now_ns();
            if (watch.is_silent(0, status, now)) say_and_end(watch.error({status}, now));
          }
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace

Executor::Executor(std::optional<RankInfo> joined, ProgressDisplay& display)
    : joined_(std::move(joined)), display_(display) {
  if (joined_) {
    std::signal(SIGUSR1, SIG_IGN);  // until a run is there that saves
    board_ = new LaunchBoard(joined_->world_size);
  } else {
    signals_ = std::make_unique<SignalWatch>();
  }
}

std::function<void(const Progress&)> Executor::shown_progress() {
  return [this](const Progress& progress) {
    if (reports()) display_.update(progress);
    seen_.last_ns = now_ns();
    seen_.last_step = progress.step;
    if (seen_.first_ns != 0) return;
    seen_.first_ns = seen_.last_ns;
    seen_.first_step = seen_.last_step;
  };
}

Outcome Executor::run_in_place(const RankBody& body, const std::string& run_id,
                               const WorldConfig& world, bool last) {
  board_->attach(joined_->rank);
  LaunchBoard::PhaseWriter phases;
  const PhaseSubscription subscription(phases);
  // On gloo's thread; the others learn from it what this rank called.
  const double limit_s = world.comm.timeout_s + kAgreementS;
  say_uncaught([this, run_id, limit_s](const RankError& error) {
    const FailureReport failure = failure_of(*joined_, error, *board_);
    display_.message(agree_on_failure(*joined_, run_id, limit_s, failure).reason);
  });
  RankError error;
  try {
    const OwnProgress progress(*board_, joined_->rank, world.progress_timeout_s);
    return {Outcome::Status::ok, {}, 0, body(*joined_, shown_progress())};
  } catch (...) {
    error = describe_current_exception();
  }
  give_back_freed_memory();
  const FailureReport failure = failure_of(*joined_, error, *board_);
  // Now, in short: a launcher may end this rank while it waits.
  display_.message(failure.reason.substr(0, failure.reason.find('\n')) +
                   "; asking the other ranks");
  return agree_on_failure(*joined_, run_id, last ? kLastAgreementS : limit_s, failure);
}

Outcome Executor::run_forked(const RankBody& body, const Experiment& experiment) {
  const auto on_log = [this](int rank, const std::string& level, const std::string& text) {
    display_.message("[rank " + std::to_string(rank) + "] [" + level + "] " + text);
  };
  return run_ranks(experiment.world, body, *signals_, {shown_progress(), on_log},
                   experiment.kind->end_grace_s(experiment));
}

Outcome Executor::execute(const Experiment& experiment, const RankBody& body,
                          const std::string& run_id, bool last) {
  const WorldConfig& world = experiment.world;
  const RankBody limited = [&](const RankInfo& info, const auto& on_progress) {
    keep_plugins();
    limit_memory(world.memory_limit_gb);
    return body(info, on_progress);
  };
  seen_ = {};
  Outcome outcome =
      joined_ ? run_in_place(limited, run_id, world, last) : run_forked(limited, experiment);
  if (outcome.status == Outcome::Status::out_of_memory) {
    outcome.reason += "\n  hint: " + experiment.kind->words().memory_hint;
  }
  return outcome;
}

std::string Executor::of_rank_0(const std::string& topic, const std::string& text) const {
  if (!joined_) return text;
  const auto first = [](const std::vector<std::string>& texts) { return texts.front(); };
  const double timeout_s = CommConfig{}.timeout_s;
  const std::string decision = decide_in_launch(*joined_, topic, text, timeout_s, first);
  if (joined_->rank == 0) wait_until_heard(*joined_, topic, timeout_s);
  return decision;
}

Outcome Executor::run(const PlannedRun& run, const std::string& run_id, std::int64_t launch_ns,
                      const RunFolders& folders, bool last) {
  const RankBody body = [&](const RankInfo& info, const auto& on_progress) {
    const RunContext context{.info = info,
                             .run_id = run_id,
                             .launch_ns = launch_ns,
                             .folders = folders,
                             .on_progress = on_progress};
    return json(run.experiment.kind->run_rank(run.experiment, *run.registry, context));
  };
  return execute(run.experiment, body, run_id, last);
}

Outcome Executor::verify(const PlannedRun& run, const std::string& run_id) {
  // Between two steps rank 0 computes the whole batch, by slower kernels, and the others wait.
  Experiment experiment = run.experiment;
  const double longer = 4.0 * static_cast<double>(experiment.world.size);
  experiment.world.comm.timeout_s *= longer;
  experiment.world.progress_timeout_s *= longer;
  const RankBody body = [&](const RankInfo& info, const auto&) {
    const RunContext context{.info = info, .run_id = run_id};
    return experiment.kind->verify_rank(experiment, *run.registry, context);
  };
  return execute(experiment, body, run_id, /*last=*/true);
}

Outcome Executor::lockstep(const PlannedRun& run, const std::string& run_id,
                           const LockstepPart& part) {
  const RankBody body = [&](const RankInfo& info, const auto&) {
    const RunContext context{.info = info, .run_id = run_id};
    return run.experiment.kind->lockstep_rank(run.experiment, *run.registry, context, part);
  };
  return execute(run.experiment, body, run_id, /*last=*/true);
}

}  // namespace ddprun
