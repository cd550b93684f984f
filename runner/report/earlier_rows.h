// Rows of earlier results, for --resume.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "runner/report/row.h"

namespace ddprun {

struct EarlierRow {
  /// taken_from: the result that it was measured for.
  Row row;
  /// The newest result that has it.
  std::filesystem::path folder;
};

/// The rows with status ok of all results in `folder` (`<output>/<name>`), by fingerprint, the
/// newest of each. Results of another schema are left out, with one warning. Throws ConfigError if
/// a result.json cannot be read.
std::map<std::string, EarlierRow> earlier_rows(const std::filesystem::path& folder);

}  // namespace ddprun
