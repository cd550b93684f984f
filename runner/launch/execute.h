// Runs one experiment's ranks: forks them, or runs this process as one rank of a launch that it
// joined.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "ddprun/config/run_context.h"
#include "runner/launch/plan.h"
#include "runner/launch/progress.h"
#include "runner/launch/supervisor.h"

namespace ddprun {

/// What the last run's ranks said of their progress, a few times a second.
struct SeenProgress {
  std::int64_t first_ns = 0, last_ns = 0;      ///< by now_ns(); 0: nothing was said
  std::int64_t first_step = 0, last_step = 0;  ///< steps that were done then
};

class Executor {
 public:
  /// `joined`: this process's place in an existing launch, or nothing: ranks are forked.
  Executor(std::optional<RankInfo> joined, ProgressDisplay& display);

  /// Runs the experiment; the result is the ranks' results, a JSON list. `run_id`, `launch_ns` and
  /// `folders` are RunContext's. `last`: no run follows. In a launch that was joined, the ranks of
  /// a run that failed agree whether the next one can run: it can if memory ran out on some, and
  /// the others failed because of that alone.
  Outcome run(const PlannedRun& run, const std::string& run_id, std::int64_t launch_ns,
              const RunFolders& folders, bool last);
  /// Compares with one process: a Verification's `steps`, `parameters` and `faults`.
  Outcome verify(const PlannedRun& run, const std::string& run_id);
  /// One experiment's part of a comparison in lockstep; the result is rank 0's.
  Outcome lockstep(const PlannedRun& run, const std::string& run_id, const LockstepPart& part);

  /// `text` of rank 0 on every rank of a launch that was joined, all of which call it alike; else
  /// `text`. `topic` is used once. Throws CommError if a rank does not come.
  std::string of_rank_0(const std::string& topic, const std::string& text) const;

  const SeenProgress& seen() const { return seen_; }
  bool joined() const { return joined_.has_value(); }
  /// Whether this process prints and writes the report.
  bool reports() const { return !joined_ || joined_->rank == 0; }
  std::string launcher() const { return joined_ ? joined_->launcher : kOwnLauncher; }

 private:
  /// Shows the progress of ranks, if this process reports.
  std::function<void(const Progress&)> shown_progress();
  Outcome execute(const Experiment& experiment, const RankBody& body, const std::string& run_id,
                  bool last);
  Outcome run_forked(const RankBody& body, const Experiment& experiment);
  /// As the rank that this process is. If it fails, it asks the others how they failed.
  Outcome run_in_place(const RankBody& body, const std::string& run_id, const WorldConfig& world,
                       bool last);

  std::optional<RankInfo> joined_;
  ProgressDisplay& display_;
  SeenProgress seen_;
  std::unique_ptr<SignalWatch> signals_;  ///< only where this process supervises
  /// Of a rank that joined a launch. Backends' threads write there as long as the process lives.
  LaunchBoard* board_ = nullptr;
};

}  // namespace ddprun
