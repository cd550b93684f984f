// What would help a row that exposes much communication, as far as the table's own numbers show it.
#include <fmt/format.h>

#include <algorithm>

#include "ddprun/experiments/training_findings/training_findings.h"

namespace ddprun::training_findings {

namespace {

/// Of the step: less is no reason for advice.
constexpr double kMuch = 0.1;
/// Of what the row exposes: from there on the link is what limits it.
constexpr double kBound = 0.5;
/// Another row must expose so much less to be named.
constexpr double kLess = 0.5;

bool exposes_much(const RowRuns& row) {
  return !does_other_work(row) && exposed_of(row) >= kMuch * step_of(row);
}

/// The step that the link allows, whatever hides behind computing. A step that sends less is
/// another one.
Finding bound_by_link(const RowRuns& row) {
  const double exposed_ms = exposed_of(row), step_ms = step_of(row);
  const double link_ms = std::min(exposed_ms, mean_figure(row, training().link_earliest_ms));
  if (link_ms < kBound * exposed_ms) return {};
  const double least_ms = step_ms - exposed_ms + link_ms;
  const std::string text = fmt::format(
      "no order of the same collectives makes a step of {} shorter than {:.1f} ms (it takes "
      "{:.1f}): fewer bytes, a faster link or more to compute would",
      name_of(row), least_ms, step_ms);
  return finding("bound_by_link", text, row, {{"least_ms", least_ms}, {"step_ms", step_ms}});
}

/// Of rows that differ in their strategy alone, the one that exposes least. What hides behind the
/// first row without overlap has a sentence of its own.
Finding exposes_less(const RowRuns& row, const Rows& group) {
  const RowRuns* best = nullptr;
  const RowRuns* open = nullptr;
  for (const RowRuns& other : group) {
    if (does_other_work(other) || mean_figure(other, training().collectives) <= 0) continue;
    if (open == nullptr && !overlaps(other)) open = &other;
    if (best == nullptr || exposed_of(other) < exposed_of(*best)) best = &other;
  }
  if (best == nullptr || exposed_of(*best) > kLess * exposed_of(row)) return {};
  if (&row == open && overlaps(*best)) return {};
  const std::string text = fmt::format(
      "{} exposes {:.1f} ms of its step of {:.1f}; {} exposes {:.1f} of {:.1f}, by its strategy "
      "alone",
      name_of(row), exposed_of(row), step_of(row), name_of(*best), exposed_of(*best),
      step_of(*best));
  return finding("exposes_less", text, row,
                 {{"base", name_of(*best)},
                  {"exposed_ms", exposed_of(row)},
                  {"base_exposed_ms", exposed_of(*best)}});
}

}  // namespace

Sorts of_advice(const Rows& rows) {
  Sorts out(2);
  for (const Rows& group : by_work(rows)) {
    for (const RowRuns& row : group) {
      if (!exposes_much(row)) continue;
      Finding bound = bound_by_link(row);
      if (bound.text.empty()) {
        out[1].push_back(exposes_less(row, group));
      } else {
        out[0].push_back(std::move(bound));
      }
    }
  }
  return out;
}

}  // namespace ddprun::training_findings
