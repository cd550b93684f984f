// What stands in a result folder: result.json, steps.csv, summary.md, timelines, the YAML; and
// reading it back.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/config/config_node.h"
#include "runner/report/result_folder.h"
#include "runner/report/row.h"

namespace ddprun {

/// Raised when a reader of the earlier form would misread result.json.
inline constexpr int kResultSchemaVersion = 3;

/// What all rows of a result have in common.
struct ResultContext {
  std::string name;
  std::string time;  ///< start, UTC
  std::vector<std::string> command_line;
  std::vector<std::pair<std::string, std::string>> environment;
  std::string yaml;                        ///< the experiment file with overrides, before the sweep
  std::vector<std::string> resolved_yaml;  ///< one a row
};

nlohmann::json result_json(const ResultContext& context, const std::vector<Row>& rows);
/// One line a row, rank and step; warm-up steps are marked.
std::string steps_csv(const std::vector<Row>& rows);
std::string summary_markdown(const ResultContext& context, const std::vector<Row>& rows);

/// Where the timeline of row `number` (1 is the first) stands in the result folder, and the files
/// that its ranks write.
std::string row_folder(std::size_t number);

/// Writes all files of a result beside those that ranks wrote, and shows the folder; returns it.
/// Throws Error.
std::filesystem::path write_result(ResultFolder& folder, const ResultContext& context,
                                   const std::vector<Row>& rows);

struct EarlierRow {
  Row row;                       ///< taken_from: the result that it was measured for
  std::filesystem::path folder;  ///< the newest result that has it
};
/// The rows with status ok of all results in `folder` (`<output>/<name>`), by fingerprint, the
/// newest of each. Throws ConfigError if a result.json cannot be read.
std::map<std::string, EarlierRow> earlier_rows(const std::filesystem::path& folder);

}  // namespace ddprun
