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

/// The table as it is, or, where names in its first column would be cut at that width (0: no
/// limit), with their values alone.
TextTable with_names_for(TextTable table, int width);

/// The table and its notes for a terminal (or a pipe). Where not all columns fit, those of these
/// titles are the last to go.
std::string terminal_report(const TableLines& table, const Terminal& terminal,
                            const std::vector<std::string>& titles = {});

}  // namespace ddprun
