// What a batch prints: its table, or the same rows for other programs.
#pragma once

#include <string>

#include "runner/report/report_format.h"
#include "runner/report/result_files.h"
#include "runner/report/table_lines.h"
#include "runner/report/terminal.h"

namespace ddprun {

/// `terminal` is that of the table, as is `with_memory`: the memory of each phase, where it was
/// looked at.
std::string report_output(ReportFormat format, const ResultContext& context,
                          const TableLines& table, const Terminal& terminal, bool with_memory);

}  // namespace ddprun
