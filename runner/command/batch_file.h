// A file of a batch and its rows: made from the plan, while they run, and completed when their
// ranks have ended.
#pragma once

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/base/ranges.h"
#include "ddprun/config/experiment_check.h"
#include "ddprun/config/run_context.h"
#include "ddprun/live/live_config.h"
#include "runner/launch/plan.h"
#include "runner/launch/supervisor.h"
#include "runner/report/earlier_rows.h"
#include "runner/report/result_files.h"
#include "runner/report/result_folder.h"
#include "runner/report/row.h"

namespace ddprun {

/// A row whose ranks have not started yet. `launcher`: who starts them.
Row unrun_row(const PlannedFile& file, const PlannedTurn& turn, const std::string& launcher);

Row refused_row(const PlannedFile& file);

void finish_row(Row& row, const Outcome& outcome);

/// Why the last checkpoint of a row that was measured was not saved: what it trained is nowhere.
/// Empty: it was, or none was asked for.
std::string unsaved(const Row& row);

/// "proof failed: integer_gradients: ..."
std::string outcome_text(const Row& row);

/// For the line that ends a row: "31.2 ms/step, loss 2.500", or why it failed.
std::string end_text(const Row& row);

struct BatchRow {
  Row row;
  const PlannedFile* file;
  const PlannedRun* planned;  ///< null: the file was refused
  std::string name = {};
  bool last_in_round = false;              ///< PlannedTurn's
  std::optional<EarlierRow> earlier = {};  ///< with --resume

  /// Whether this machine can run it, and it is not done with all of its steps.
  bool runs_here() const { return planned != nullptr && planned->not_here.empty(); }
  bool cannot_run() const { return planned != nullptr && !runs_here() && !earlier; }
  /// The complete result that it was taken from, or an empty path.
  std::filesystem::path found_in() const {
    return row.taken_from.empty() ? std::filesystem::path() : earlier->folder;
  }
};

/// Why rows cannot run, each reason once.
std::string obstacles_of(std::span<const BatchRow> rows);

struct FileResult {
  const PlannedFile& plan;
  std::span<BatchRow> rows;
  ResultContext context;
  std::optional<ResultFolder> folder = {};  ///< since the first row that ended, or ranks that write

  ResultFolder& open_folder() {
    if (!folder) folder.emplace(plan.output_dir, plan.name, context.time);
    return *folder;
  }
  /// Where rank 0 of the row writes while it runs. Whoever watches must find it there.
  RunFolders folders_of(const BatchRow& row) {
    const LiveConfig& live = row.planned->experiment.live;
    if (live.in_result_folder()) open_folder().show();
    RunFolders folders;
    if (ranks_write(plan)) folders.profile = open_folder().path(row_folder(number_of(row)));
    if (live.in_result_folder() || !live.prometheus.empty()) {
      folders.live = open_folder().path(live_folder(number_of(row)));
    }
    return folders;
  }
  /// The context with the YAML of all rows, which whole results have.
  const ResultContext& whole_context() {
    const auto yaml = [](const BatchRow& each) { return to_yaml(each.planned->resolved); };
    context.resolved_yaml = mapped(rows, yaml);
    return context;
  }
  /// 1 is the first.
  std::size_t number_of(const BatchRow& row) const {
    return static_cast<std::size_t>(&row - rows.data()) + 1;
  }
};

/// Throws ConfigError if results or live outputs of the file cannot be written where it says.
inline void check_places(const PlannedFile& file) {
  ResultFolder(file.output_dir, file.name, utc_now());
  for (const PlannedRun& run : file.runs) {
    check_prometheus_file(run.experiment.live,
                          origin_of(run.experiment.document, "output.prometheus"));
  }
}

/// Where each row stands in the sweep. None was refused.
inline std::vector<SweptValues> points_of(std::span<const BatchRow> rows) {
  return mapped(rows, [](const BatchRow& each) { return each.planned->experiment.point; });
}

/// Rows as they run: round by round, so that what changes with time is the same for all.
inline std::vector<BatchRow*> in_turns(std::span<BatchRow> rows) {
  auto order = mapped(rows, [](BatchRow& each) { return &each; });
  std::ranges::stable_sort(order, {}, [](const BatchRow* each) {
    return std::pair(each->row.round, each->last_in_round);
  });
  return order;
}

inline std::vector<Row> plain(std::span<const BatchRow> of) { return mapped(of, &BatchRow::row); }

}  // namespace ddprun
