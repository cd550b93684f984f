// Compares the conditions of earlier rows with those of this batch.
#include "runner/command/resumption.h"

#include <fmt/format.h>

#include <algorithm>

#include "ddprun/result/conditions.h"

namespace ddprun {

namespace {

/// Sets `unlike` to the conditions in which the newest differs, if none fits.
std::optional<EarlierRow> newest_of(const Row& planned, const std::vector<EarlierRow>& known,
                                    std::vector<Difference>& unlike) {
  for (const EarlierRow& earlier : known) {
    if (!says_the_same(planned, earlier)) continue;
    auto differing = differences(earlier.row.conditions, planned.conditions);
    if (differing.empty()) return earlier;
    if (unlike.empty()) unlike = std::move(differing);
  }
  return {};
}

/// The first difference to a row of `rows` whose conditions count.
std::vector<Difference> outdated_by(const Row& row, const std::vector<Resumption::Planned>& rows) {
  const auto ran = [](const Row& each) { return each.measured() && each.taken_from.empty(); };
  const bool any_ran = std::ranges::any_of(rows, [&](const auto& each) { return ran(*each.row); });
  for (const auto& other : rows) {
    const bool counts = any_ran ? ran(*other.row) : other.row->occasion.time > row.occasion.time;
    if (!counts) continue;
    if (auto unlike = unasked_differences(row, *other.row); !unlike.empty()) return unlike;
  }
  return {};
}

}  // namespace

std::vector<bool> Resumption::of_rank_0(const std::vector<bool>& own) {
  std::string text;
  for (const bool each : own) text += each ? '+' : '-';
  text = executor_.of_rank_0(fmt::format("resuming, decision {}", ++decisions_), text);
  std::vector<bool> out;
  for (const char each : text) out.push_back(each == '+');
  return out;
}

std::vector<std::optional<EarlierRow>> Resumption::read(const std::vector<Planned>& rows) {
  std::vector<std::optional<EarlierRow>> out(rows.size());
  std::vector<bool> taken(rows.size());
  std::map<const PlannedFile*, std::map<RunKey, std::vector<EarlierRow>>> found;  // a file each
  for (std::size_t i = 0; executor_.reports() && i < rows.size(); ++i) {
    const auto& [row, file, place] = rows[i];
    if (!file->error.empty()) continue;
    const auto [known, is_new] = found.try_emplace(file);
    if (is_new) {
      known->second = earlier_rows(std::filesystem::path(file->output_dir) / file->name);
    }
    std::vector<Difference> unlike;
    out[i] = newest_of(*row, known->second[{row->fingerprint, row->repetition}], unlike);
    taken[i] = out[i].has_value();
    if (!taken[i] && !unlike.empty()) say_(place + ": runs again: " + then_and_now(unlike));
  }
  taken = of_rank_0(taken);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (taken[i] && !out[i]) out[i].emplace().row.status = RowStatus::ok;
  }
  return out;
}

std::vector<bool> Resumption::outdated(const std::vector<Planned>& rows) {
  std::vector<bool> out;
  for (const auto& [row, file, place] : rows) {
    const std::vector<Difference> unlike =
        row->taken_from.empty() ? std::vector<Difference>() : outdated_by(*row, rows);
    if (!unlike.empty()) say_(place + ": runs again: " + then_and_now(unlike));
    out.push_back(!unlike.empty());
  }
  return of_rank_0(out);
}

}  // namespace ddprun
