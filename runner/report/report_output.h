// What a batch prints: its table, or the same rows for other programs.
#pragma once

#include <string>

#include "runner/report/report_format.h"
#include "runner/report/result_files.h"
#include "runner/report/table_lines.h"
#include "runner/report/terminal.h"

namespace ddprun {

/// `terminal` is that of the table, as is `with_profile`: the memory of each phase, and the
/// operators of a step, where they were looked at.
std::string report_output(ReportFormat format, const ResultContext& context,
                          const TableLines& table, const Terminal& terminal, bool with_profile);

}  // namespace ddprun
