// The memory of each phase, for the report.
#pragma once

#include "runner/report/table_lines.h"
#include "runner/report/text_table.h"

namespace ddprun {

/// One line for each row and phase. The figures are those of the rank with the highest peak in that
/// phase. No line if no row's memory was measured.
TextTable memory_table(const TableLines& lines);

}  // namespace ddprun
