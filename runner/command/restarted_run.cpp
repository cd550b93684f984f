// Each start's progress tells what it was good for.
#include "runner/command/restarted_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "ddprun/base/clock.h"
#include "runner/report/terminal.h"

namespace ddprun {

namespace {

/// Adds what a start has done, of which the steps from `kept` on were done again.
void add_start(const SeenProgress& seen, std::int64_t kept, Restarts& restarts) {
  const auto steps = static_cast<double>(seen.last_step - seen.first_step);
  const std::int64_t again = std::max<std::int64_t>(0, seen.last_step - kept);
  restarts.steps_again += again;
  if (steps == 0) return;
  const double useful = std::max(0.0, 1 - static_cast<double>(again) / steps);
  restarts.useful_s += useful * to_s(seen.last_ns - seen.first_ns);
}

}  // namespace

Outcome run_with_restarts(Executor& executor, ProgressDisplay& display, const PlannedRun& planned,
                          const std::function<Outcome(const PlannedRun& planned)>& start,
                          std::int64_t most, Restarts& restarts) {
  if (executor.joined() || most == 0) return start(planned);
  const RunnableKind& kind = *planned.experiment.kind;
  const std::int64_t begin_ns = now_ns();
  const std::uint64_t saved_before = kind.saved(planned.experiment);
  PlannedRun next = planned;
  SeenProgress before;  // of the last start that made a step
  restarts = {};
  for (;;) {
    Outcome outcome = start(next);
    const SeenProgress seen = executor.seen();
    if (seen.first_ns != 0) {
      if (before.first_ns != 0) add_start(before, seen.first_step - 1, restarts);
      before = seen;
    }
    if (outcome.status != Outcome::Status::failed || std::ssize(restarts.reasons) == most) {
      add_start(before, before.last_step, restarts);
      restarts.all_s = seconds_since(begin_ns);
      return outcome;
    }
    restarts.reasons.push_back(first_line(outcome.reason));
    const bool goes_on = kind.saved(planned.experiment) != saved_before;
    if (goes_on) kind.go_on(next.experiment);
    display.message(fmt::format("{}: start {} of {}, {}", restarts.reasons.back(),
                                restarts.reasons.size() + 1, most + 1,
                                goes_on ? "from the last checkpoint" : "from the beginning"));
  }
}

}  // namespace ddprun
