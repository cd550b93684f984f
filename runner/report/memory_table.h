// The memory of each phase, for the report.
#pragma once

#include <vector>

#include "runner/report/row.h"
#include "runner/report/text_table.h"

namespace ddprun {

/// One line for each row and phase, each figure that of the rank with the highest peak in that
/// phase; no line if no row's memory was looked at.
TextTable memory_table(const std::vector<Row>& rows);

}  // namespace ddprun
