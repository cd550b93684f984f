// Writes the files of a result folder: result.json, tables (steps.csv, summary.csv,
// summary.md, summary.tex), the timeline and its picture, the YAML.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/config/report_config.h"
#include "runner/report/result_folder.h"
#include "runner/report/table_lines.h"
#include "runner/report/text_table.h"

namespace ddprun {

/// Raised whenever a reader of the earlier form would misread result.json.
inline constexpr int kResultSchemaVersion = 17;

/// The keys for `report.timeline` and `report.columns`, where they choose lines and columns.
inline constexpr const char* kDrawnLines = "timeline_lines";
inline constexpr const char* kChosenColumns = "table_columns";

struct ResultContext {
  std::string name;
  std::string time;  ///< start, UTC
  std::vector<std::string> command_line;
  std::vector<std::pair<std::string, std::string>> environment;
  std::string yaml;                        ///< the experiment file with overrides, before the sweep
  std::vector<std::string> resolved_yaml;  ///< one a row
  ReportConfig report = {};                ///< `report:`
  std::vector<SweptValues> points = {};    ///< one a row
  /// What makes report.html of them and of what ranks wrote into `folder`; null: there is none.
  std::string (*page)(const ResultContext& context, const TableLines& table,
                      const std::filesystem::path& folder) = nullptr;
};

/// What the JSON files of result folders have in common, but for their name: schema_version, the
/// version of ddprun, `time`, command_line and environment.
nlohmann::json result_head(int schema_version, const std::string& time,
                           const std::vector<std::string>& command_line,
                           const std::vector<std::pair<std::string, std::string>>& environment);

/// result.json: a line for each row, and each rank's samples as lists.
void write_result_json(const ResultContext& context, const TableLines& table, const TextSink& sink);
std::string summary_markdown(const ResultContext& context, const TableLines& table);
/// The table and its sentences, which it holds, and the pivot if the context has one.
std::string report_markdown(const ResultContext& context, const TableLines& table);
/// The table, no wider than a page unless the context chooses columns.
std::string summary_latex(const ResultContext& context, const TableLines& table);

/// timeline.svg: the last step of `chosen` lines (1 is the first), or of those that communicate.
/// Empty if there is nothing to draw.
std::string timeline_picture(const TableLines& table, const std::vector<std::int64_t>& chosen);

/// The pivot as a LaTeX tabular, shrunk to a page's width where it would be wider.
std::string pivot_latex(const TextTable& pivot);

/// The folder within the result folder where rows are until the result is complete. Each of its
/// files is a result.json of one row.
inline constexpr const char* kRowsFolder = "rows";

/// In the result folder, for the files that the ranks of row `number` (1 is the first) write.
std::string row_folder(std::size_t number);
/// The same for what is read while the row runs.
std::string live_folder(std::size_t number);

/// Writes a row that has ended, row `number` of its result, and shows the folder: whatever comes
/// later, --resume finds the row. Throws Error.
void write_row(ResultFolder& folder, const ResultContext& context, std::size_t number,
               const Row& row);

/// Writes all files of a complete result beside those that ranks wrote. They take the place of what
/// write_row() wrote. Returns the folder. Throws Error.
std::filesystem::path write_result(ResultFolder& folder, const ResultContext& context,
                                   const std::vector<Row>& rows);

}  // namespace ddprun
