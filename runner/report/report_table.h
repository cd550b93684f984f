// Compares rows: the table, and what a terminal shows of it.
#pragma once

#include <string>
#include <vector>

#include "runner/report/table_lines.h"
#include "runner/report/terminal.h"
#include "runner/report/text_table.h"

namespace ddprun {

/// One line for each row, with all of its runs. The columns are the quantities of the rows' kinds
/// that have a title.
TextTable report_table(const TableLines& lines);

/// The table and its notes for a terminal (or a pipe). Where not all columns fit, those of these
/// titles are the last to go.
std::string terminal_report(const TableLines& table, const Terminal& terminal,
                            const std::vector<std::string>& titles = {});

}  // namespace ddprun
