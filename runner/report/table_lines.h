// The lines of a table: each row with all of its runs, its name, and their figures.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "ddprun/result/finding.h"
#include "ddprun/result/row_runs.h"
#include "runner/report/row.h"

namespace ddprun {

/// A name: the sweep's label (of one swept key its value alone), the file's name, or both.
struct RowNames {
  std::string title;
  std::vector<std::string> names;
};
/// "bucketed(bucket_mb=5)" with a space before the bracket: as a cell of its own it reads better.
std::string as_cell(std::string value);

RowNames row_names(const std::vector<Row>& rows);

/// The values without their keys: "fp32, 128" below the title "precision, context_length", and
/// behind files' names.
RowNames values_alone(const RowNames& names);

/// Without what all values of a place have in their brackets: "{layers: 1, …}" beside
/// "{layers: 2, …}". A place has values of one plugin, or mappings.
RowNames without_shared(const RowNames& names);

struct TableLine {
  std::string name;
  /// Where its runs stand among the rows of the result: `count` of them, side by side.
  std::size_t first = 0, count = 1;
  /// Those of them that were measured.
  RowRuns runs = {};
};

/// Lines with the statistics of all runs that were measured.
class TableLines {
 public:
  /// `rows` outlive this object.
  explicit TableLines(const std::vector<Row>& rows);
  TableLines(const TableLines&) = delete;
  TableLines& operator=(const TableLines&) = delete;

  const std::vector<Row>& rows() const { return rows_; }
  const std::vector<TableLine>& lines() const { return lines_; }
  const std::string& title() const { return title_; }
  /// Within a sentence: the value of a key such as world.size would say nothing alone.
  std::string in_sentence(const TableLine& line) const;
  /// Whether a line has several runs.
  bool repeated() const;

  /// Those of each row that was measured, in order.
  const std::deque<RunStatistics>& statistics() const { return statistics_; }
  /// Every measured run of that kind, in order. A row is of that kind.
  const std::vector<const RunStatistics*>& runs_of(const ExperimentKind& kind) const {
    return runs_.at(&kind);
  }
  /// No value: the line has none, or is of another kind.
  RowFigure figure(const TableLine& line, const ExperimentKind& kind,
                   const Quantity& quantity) const;

 private:
  const std::vector<Row>& rows_;
  std::string title_;
  std::deque<RunStatistics> statistics_;  // not a vector: addresses stay
  std::vector<TableLine> lines_;
  std::map<const ExperimentKind*, std::vector<const RunStatistics*>> runs_;
};

/// The name of each run: that of its row, and which one it is if there are several.
std::vector<std::string> run_names(const TableLines& table);

/// What the rows that were measured say together, kind by kind.
std::vector<Finding> findings_of(const TableLines& table);

nlohmann::json table_json(const TableLines& table);

}  // namespace ddprun
