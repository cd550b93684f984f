// A file of a batch and its rows while they run.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runner/launch/plan.h"
#include "runner/report/earlier_rows.h"
#include "runner/report/result_files.h"
#include "runner/report/result_folder.h"
#include "runner/report/row.h"

namespace ddprun {

/// A row of the table, and what the batch knows of it.
struct BatchRow {
  Row row;
  const PlannedFile* file;
  const PlannedRun* planned;  ///< null: the file was refused
  std::string name = {};
  bool last_in_round = false;              ///< PlannedTurn's
  std::optional<EarlierRow> earlier = {};  ///< with --resume

  /// The complete result that it was taken from, or an empty path.
  std::filesystem::path found_in() const {
    return row.taken_from.empty() ? std::filesystem::path() : earlier->folder;
  }
};

/// A file while its rows run.
struct FileResult {
  const PlannedFile& plan;
  std::span<BatchRow> rows;
  ResultContext context;
  std::optional<ResultFolder> folder = {};  ///< since the first row that ended, or ranks that write

  ResultFolder& open_folder() {
    if (!folder) folder.emplace(plan.output_dir, plan.name, context.time);
    return *folder;
  }
  /// 1 is the first.
  std::size_t number_of(const BatchRow& row) const {
    return static_cast<std::size_t>(&row - rows.data()) + 1;
  }
};

inline std::vector<Row> plain(std::span<const BatchRow> of) {
  std::vector<Row> rows;
  for (const BatchRow& each : of) rows.push_back(each.row);
  return rows;
}

}  // namespace ddprun
