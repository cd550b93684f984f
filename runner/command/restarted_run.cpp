// Each start's progress tells what it was good for.
#include "runner/command/restarted_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ddprun/base/clock.h"
#include "ddprun/base/failure.h"
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

/// What the run has saved; nothing if that cannot be read, and `why` has the words.
std::optional<std::uint64_t> saved_by(const PlannedRun& planned, std::string& why) {
  try {
    return planned.experiment.kind->saved(planned.experiment);
  } catch (const std::exception& unreadable) {
    why = message_of(unreadable);
    return {};
  }
}

}  // namespace

Outcome run_with_restarts(Executor& executor, ProgressDisplay& display, const PlannedRun& planned,
                          const std::function<Outcome(const PlannedRun& planned)>& start,
                          std::int64_t most, Restarts& restarts) {
  if (executor.joined() || most == 0) return start(planned);
  const RunnableKind& kind = *planned.experiment.kind;
  const std::int64_t begin_ns = now_ns();
  std::string unreadable;
  const auto saved_before = saved_by(planned, unreadable);
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
    std::optional<std::uint64_t> saved;
    if (outcome.status == Outcome::Status::failed && std::ssize(restarts.reasons) < most) {
      saved = saved_by(planned, unreadable);
      if (!saved) outcome.reason += "\n  it is not started again: " + unreadable;
    }
    if (!saved) {
      add_start(before, before.last_step, restarts);
      restarts.all_s = seconds_since(begin_ns);
      return outcome;
    }
    restarts.reasons.push_back(first_line(outcome.reason));
    const bool goes_on = saved != saved_before;
    if (goes_on) kind.go_on(next.experiment);
    display.message(fmt::format("{}: start {} of {}, {}", restarts.reasons.back(),
                                restarts.reasons.size() + 1, most + 1,
                                goes_on ? "from the last checkpoint" : "from the beginning"));
  }
}

}  // namespace ddprun
