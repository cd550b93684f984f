// How a file's table is made: the YAML section `report:`, but for its `baseline`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun {

struct ConfigNode;
class ExperimentKind;
class Options;

struct ReportConfig {
  /// Runs of each row, which take turns: first of all rows once, then of all once more.
  std::int64_t repeats = 1;
  /// Titles, for Markdown and LaTeX; empty: of Markdown all, of LaTeX what fits a page.
  std::vector<std::string> columns;
};

void declare_options(Options& options, ReportConfig& config);

/// Reads the section of that document, strictly. `baseline` is read by find_baseline(), which also
/// refuses a section that is no mapping. Throws ConfigError.
ReportConfig read_report(const ConfigNode& document);

/// Throws ConfigError if the table of that kind has no such column.
void check_columns(const ReportConfig& config, const ConfigNode& document,
                   const ExperimentKind& kind);

}  // namespace ddprun
