// Compares each row with its base, as the sentences do.
#include "runner/compare/enough_rounds.h"

#include <algorithm>

#include "ddprun/result/conditions.h"

namespace ddprun {

std::optional<double> widest_interval(const TableLines& table) {
  std::optional<double> widest;
  for (const TableLine& line : table.lines()) {
    if (line.runs.empty()) continue;
    const Run& run = line.runs.front()->run();
    const RowRuns base = row_with(run.baseline, table.runs_of(*run.kind));
    if (base.empty() || base.front()->run().fingerprint == run.fingerprint) continue;
    const Quantity& time = run.kind->quantities().front();
    const Comparison found = compare_rows(
        line.runs, base, [&time](const RunStatistics& of) { return of.figure(time).value; });
    if (!found.interval) return {};
    const double half = (found.interval->high - found.interval->low) / 2 / found.ratio;
    widest = std::max(widest.value_or(0), half);
  }
  return widest;
}

}  // namespace ddprun
