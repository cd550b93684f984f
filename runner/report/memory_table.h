// The memory of each phase, for the report.
#pragma once

#include <string>

#include "runner/report/table_lines.h"
#include "runner/report/text_table.h"

namespace ddprun {

/// One line for each row and phase. The figures are those of the rank with the highest peak in that
/// phase; beside the peak stands what was predicted. No line if no row's memory was measured.
TextTable memory_table(const TableLines& lines);

/// A line for each phase whose peak differs from the prediction by more than 5 %, and for each row
/// that could not be predicted, with the reason. Empty: there is none.
std::string memory_remarks(const TableLines& lines);

}  // namespace ddprun
