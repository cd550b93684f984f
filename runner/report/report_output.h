// What a batch prints: its table, or the same rows for other programs.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "runner/report/terminal.h"

namespace ddprun {

struct ResultContext;
class TableLines;

/// Markdown is the table and the sentences of summary.md, CSV is summary.csv, and JSON is
/// result.json, each of all rows of the batch.
enum class ReportFormat : std::uint8_t { table, markdown, csv, json };
constexpr auto choice_names(ReportFormat) { return std::array{"table", "markdown", "csv", "json"}; }

/// `terminal` is that of the table, as is `with_profile`: the memory of each phase, and the
/// operators of a step, where they were looked at.
std::string report_output(ReportFormat format, const ResultContext& context,
                          const TableLines& table, const Terminal& terminal, bool with_profile);

}  // namespace ddprun
