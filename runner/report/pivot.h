// The figures of a table by two sorts of swept keys: a view of the same lines.
#pragma once

#include <string>
#include <vector>

#include "ddprun/config/report_config.h"
#include "runner/report/table_lines.h"
#include "runner/report/text_table.h"

namespace ddprun {

/// A line for each combination of values of `pivot.rows`, in the order of the sweep; columns for
/// those of `pivot.columns`, each with all of `pivot.value`. A cell has what the report's table
/// has; that of a row without a figure says how the row ended. `points`: of each row.
TextTable pivot_table(const PivotConfig& pivot, const std::vector<SweptValues>& points,
                      const TableLines& lines);

/// As CSV, with every digit of a figure, under the quantity's key; a cell without one is empty.
std::string pivot_csv(const PivotConfig& pivot, const std::vector<SweptValues>& points,
                      const TableLines& lines);

/// "step ms by strategy"
std::string pivot_title(const PivotConfig& pivot);

}  // namespace ddprun
