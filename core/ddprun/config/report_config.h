// How a file's table is made: the YAML section `report:`, but for its `baseline`.
#pragma once

#include <cstdint>

namespace ddprun {

struct ConfigNode;
class Options;

struct ReportConfig {
  /// Runs of each row, which take turns: first of all rows once, then of all once more.
  std::int64_t repeats = 1;
};

void declare_options(Options& options, ReportConfig& config);

/// Reads the section of that document, strictly. `baseline` is read by find_baseline(), which also
/// refuses a section that is no mapping. Throws ConfigError.
ReportConfig read_report(const ConfigNode& document);

}  // namespace ddprun
