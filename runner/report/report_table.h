// Compares rows: the table, and what a terminal shows of it.
#pragma once

#include <string>
#include <vector>

#include "runner/report/table_lines.h"
#include "runner/report/terminal.h"
#include "runner/report/text_table.h"

namespace ddprun {

/// A line a row, with all of its runs; its kinds' quantities that have a title as columns.
TextTable report_table(const TableLines& lines);

/// The table as it is, or, where names in its first column would be cut at that width (0: no
/// limit), with their values alone, and then without what these share.
TextTable with_names_for(TextTable table, int width);

/// For a terminal or a pipe. Where not all columns fit, those of these titles go last.
std::string terminal_report(const TableLines& table, const Terminal& terminal,
                            const std::vector<std::string>& titles = {});

}  // namespace ddprun
