// Rows of earlier results, for --resume.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "runner/report/row.h"

namespace ddprun {

struct EarlierRow {
  /// Its taken_from is the result that it was measured for.
  Row row;
  /// The newest result that has it.
  std::filesystem::path folder;
};

/// Returns the newest row with status ok for each fingerprint, from all results in `folder`
/// (`<output>/<name>`). Results of another schema are left out, with one warning. Throws
/// ConfigError if a result.json cannot be read.
std::map<std::string, EarlierRow> earlier_rows(const std::filesystem::path& folder);

}  // namespace ddprun
