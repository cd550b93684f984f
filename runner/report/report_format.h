// What a batch's report may be printed as.
#pragma once

#include <array>
#include <cstdint>

namespace ddprun {

/// Markdown is the table and the sentences of summary.md, CSV is summary.csv, and JSON is
/// result.json, each of all rows of the batch.
enum class ReportFormat : std::uint8_t { table, markdown, csv, json };
constexpr auto choice_names(ReportFormat) { return std::array{"table", "markdown", "csv", "json"}; }

}  // namespace ddprun
