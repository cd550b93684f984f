// Looks at the intervals and at the clock between two turns.
#include "runner/command/open_rounds.h"

#include <fmt/format.h>

#include <algorithm>

#include "ddprun/base/clock.h"
#include "ddprun/base/text.h"
#include "ddprun/result/comparison.h"
#include "ddprun/result/conditions.h"

namespace ddprun {

std::optional<double> widest_interval(const TableLines& table) {
  std::optional<double> widest;
  for (const TableLine& line : table.lines()) {
    if (line.runs.empty()) continue;
    const Run& run = line.runs.front()->run();
    const RowRuns base = base_of(run, table.runs_of(*run.kind));
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

OpenRounds::OpenRounds(const PlannedFile& plan, const Executor& executor)
    : plan_(plan), executor_(executor), begin_ns_(now_ns()) {}

bool OpenRounds::begins(std::int64_t round, std::span<const BatchRow> rows) {
  if (round <= last_) return true;
  if (!reason_.empty()) return false;
  if (plan_.report.open() && round > static_cast<std::int64_t>(Comparison::kLeastRuns)) {
    const std::string own = executor_.reports() ? find_reason(rows) : "";
    reason_ = executor_.of_rank_0(fmt::format("{}/rounds/{}", plan_.name, round), own);
    if (!reason_.empty()) return false;
  }
  last_ = round;
  return true;
}

std::string OpenRounds::words() const {
  if (reason_.empty()) return {};
  return fmt::format("{}: {} of each row: {}", plan_.name, counted(last_, "run"), reason_);
}

std::string OpenRounds::find_reason(std::span<const BatchRow> rows) const {
  const ReportConfig& report = plan_.report;
  const std::vector<Row> done = plain(rows);
  const std::optional<double> widest = widest_interval(TableLines(done));
  const bool asked = report.until > 0 && last_ >= ReportConfig::kLeastForWidth;
  if (asked && widest && *widest <= report.until) {
    return fmt::format("the widest interval is {:.2g} %", 100 * *widest);
  }
  const double minutes = seconds_since(begin_ns_) / 60;
  if (report.minutes <= 0 || minutes < report.minutes) return {};
  return fmt::format("{:g} {} over{}", report.minutes,
                     report.minutes == 1 ? "minute is" : "minutes are",
                     widest ? fmt::format(", the widest interval is {:.2g} %", 100 * *widest) : "");
}

}  // namespace ddprun
