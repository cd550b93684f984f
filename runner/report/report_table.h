// The comparison of rows: the table, and what stands below it.
#pragma once

#include <string>
#include <vector>

#include "runner/report/row.h"
#include "runner/report/terminal.h"
#include "runner/report/text_table.h"

namespace ddprun {

/// One line a row. The first measured row is what the others are compared with.
TextTable report_table(const std::vector<Row>& rows);

/// What was proved, in words, and what was not, and which figure is missing why: one line each.
std::vector<std::string> proof_lines(const std::vector<Row>& rows);

/// The table and its notes for a terminal (or a pipe).
std::string terminal_report(const std::vector<Row>& rows, const Terminal& terminal);

/// How rows are called when they stand together: the sweep's label (its value alone when only one
/// key is swept), the file's name, or both.
struct RowNames {
  std::string title;  ///< of the column
  std::vector<std::string> names;
};
RowNames row_names(const std::vector<Row>& rows);

/// 1234567 -> "1,234,567".
std::string with_thousands(std::int64_t value);

}  // namespace ddprun
