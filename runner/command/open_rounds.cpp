// Looks at the intervals and at the clock between two turns.
#include "runner/command/open_rounds.h"

#include <fmt/format.h>

#include "ddprun/base/clock.h"
#include "ddprun/result/comparison.h"
#include "runner/compare/enough_rounds.h"
#include "runner/report/table_lines.h"

namespace ddprun {

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
  return fmt::format("{}: {} runs of each row: {}", plan_.name, last_, reason_);
}

std::string OpenRounds::find_reason(std::span<const BatchRow> rows) const {
  const ReportConfig& report = plan_.report;
  const std::vector<Row> done = plain(rows);
  const std::optional<double> widest = widest_interval(TableLines(done));
  const bool asked = report.until > 0 && last_ >= ReportConfig::kLeastForWidth;
  if (asked && widest && *widest <= report.until) {
    return fmt::format("the widest interval is {:.2g} %", 100 * *widest);
  }
  const double minutes = static_cast<double>(now_ns() - begin_ns_) * 1e-9 / 60;
  if (report.minutes <= 0 || minutes < report.minutes) return {};
  return fmt::format("{:g} minutes are over{}", report.minutes,
                     widest ? fmt::format(", the widest interval is {:.2g} %", 100 * *widest) : "");
}

}  // namespace ddprun
