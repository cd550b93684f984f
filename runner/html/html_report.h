// A page that shows results by itself: tables, charts and their data in one HTML file.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "runner/report/result_files.h"
#include "runner/report/table_lines.h"

namespace ddprun {

/// The page without data, as the build made it of the files of runner/html/page and of Chart.js.
std::string_view page_template();

/// What the page has of a result: `result`, which is its result.json without the timelines of its
/// ranks, and what only this program knows of it: the words of its quantities, the cells and
/// sentences of its tables, its pictures. `place` is where it was read; empty: it is in the page's
/// folder. `folder` is where its ranks wrote pictures of their memory; those that are not there are
/// left out.
nlohmann::json page_of_result(const TableLines& table, nlohmann::json result,
                              const std::string& place, const std::filesystem::path& folder);

/// The whole file, which needs no other and no network. `results`: of page_of_result().
std::string html_page(const std::vector<nlohmann::json>& results);

/// The page of a result that is being written, for its folder.
std::string html_of_run(const ResultContext& context, const TableLines& table,
                        const std::filesystem::path& folder);

}  // namespace ddprun
