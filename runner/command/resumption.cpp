// Compares the conditions of earlier rows with those of this batch.
#include "runner/command/resumption.h"

#include <fmt/format.h>

#include <algorithm>

#include "ddprun/base/ranges.h"
#include "ddprun/result/conditions.h"

namespace ddprun {

namespace {

/// The newest that was measured under the planned conditions. If there is none, the newest, and
/// `unlike` is what it differs in.
std::optional<EarlierRow> newest_of(const Row& planned, const std::vector<EarlierRow>& known,
                                    std::vector<Difference>& unlike) {
  std::optional<EarlierRow> newest;
  for (const EarlierRow& earlier : known) {
    if (!says_the_same(planned, earlier)) continue;
    auto differing = differences(earlier.row.conditions, planned.conditions);
    if (newest && !differing.empty()) continue;
    newest = earlier;
    unlike = std::move(differing);
    if (unlike.empty()) break;
  }
  return newest;
}

/// The first difference to a row of `rows` whose conditions count.
std::vector<Difference> outdated_by(const Row& row, std::span<const BatchRow> rows) {
  const auto ran = [](const Row& each) { return each.measured() && each.taken_from.empty(); };
  const bool any_ran = std::ranges::any_of(rows, ran, &BatchRow::row);
  for (const BatchRow& other : rows) {
    const bool counts = any_ran ? ran(other.row) : other.row.occasion.time > row.occasion.time;
    if (!counts) continue;
    if (auto unlike = unasked_differences(row, other.row); !unlike.empty()) return unlike;
  }
  return {};
}

}  // namespace

std::vector<bool> BatchResumption::of_rank_0(const std::vector<bool>& own) {
  std::string text;
  for (const bool each : own) text += each ? '+' : '-';
  text = executor_.of_rank_0(fmt::format("resuming, decision {}", ++decisions_), text);
  return mapped(text, [](char each) { return each == '+'; });
}

void BatchResumption::read(std::span<BatchRow> rows) {
  std::vector<bool> taken(rows.size());
  std::map<const PlannedFile*, std::map<RunKey, std::vector<EarlierRow>>> found;  // a file each
  for (std::size_t i = 0; executor_.reports() && i < rows.size(); ++i) {
    BatchRow& each = rows[i];
    const PlannedFile& file = *each.file;
    if (!file.error.empty()) continue;
    const auto [known, is_new] = found.try_emplace(&file);
    if (is_new) known->second = earlier_rows(std::filesystem::path(file.output_dir) / file.name);
    std::vector<Difference> unlike;
    auto newest =
        newest_of(each.row, known->second[{each.row.fingerprint, each.row.repetition}], unlike);
    const bool lost = newest && each.runs_here() && !unsaved(newest->row).empty();
    taken[i] = newest && !lost && (unlike.empty() || !each.runs_here());
    if (taken[i]) each.earlier = std::move(newest);
    if (lost) say_(each, "runs again: its last checkpoint was not saved");
    if (lost || unlike.empty()) continue;
    say_(each, (each.runs_here() ? "runs again: " : "cannot run again, and stays: ") +
                   then_and_now(unlike));
  }
  taken = of_rank_0(taken);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (taken[i] && !rows[i].earlier) rows[i].earlier.emplace().row.status = RowStatus::ok;
  }
}

std::vector<bool> BatchResumption::outdated(std::span<const BatchRow> rows) {
  std::vector<bool> out;
  for (const BatchRow& each : rows) {
    const bool may_run = each.runs_here() && !each.row.taken_from.empty();
    const auto unlike = may_run ? outdated_by(each.row, rows) : std::vector<Difference>();
    if (!unlike.empty()) say_(each, "runs again: " + then_and_now(unlike));
    out.push_back(!unlike.empty());
  }
  return of_rank_0(out);
}

}  // namespace ddprun
