// Rows of earlier results, for --resume.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "runner/report/row.h"

namespace ddprun {

struct EarlierRow {
  /// Its taken_from is the result that it was measured for.
  Row row;
  /// The newest complete result that has it; empty if it is of a batch that was ended.
  std::filesystem::path folder = {};
};

/// A fingerprint, and which run of its row.
using RunKey = std::pair<std::string, std::int64_t>;

/// Returns for each run the rows that are done, which are ok or met their memory limit, of each
/// conditions the newest, the newest first, from all results in `folder` (`<output>/<name>`),
/// complete or not. What cannot have been written by this ddprun is logged as an error, file and
/// reason, and left out. Results of another schema are left out too, with one warning.
std::map<RunKey, std::vector<EarlierRow>> earlier_rows(const std::filesystem::path& folder);

struct WholeResult {
  nlohmann::json json;
  std::vector<Row> rows;
};
/// Throws ConfigError if it cannot be read, is of another
/// schema, or a row that is ok cannot have been written by this ddprun.
WholeResult whole_result(const std::filesystem::path& file);

/// Whether an earlier row with the fingerprint of `planned` describes the same experiment. If not,
/// it was changed since, which is logged as an error.
bool says_the_same(const Row& planned, const EarlierRow& earlier);

}  // namespace ddprun
