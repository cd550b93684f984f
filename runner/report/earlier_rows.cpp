// Reads result.json again.
#include "runner/report/earlier_rows.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <vector>

#include "ddprun/base/error.h"
#include "ddprun/base/regular_file.h"
#include "runner/report/result_files.h"

namespace ddprun {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// All result.json, the oldest first.
std::vector<fs::path> result_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const bool hidden = entry.path().filename().string().starts_with(".");
    if (!hidden && !entry.is_symlink() && fs::exists(entry.path() / "result.json")) {
      files.push_back(entry.path() / "result.json");
    }
  }
  std::sort(files.begin(), files.end());  // their folders are named by time
  return files;
}

void add_rows(const json& result, const fs::path& folder, std::map<std::string, EarlierRow>& rows) {
  for (const json& each : result.at("rows")) {
    if (each.at("status") != name_of(RowStatus::ok)) continue;
    Row row = row_from_json(each);
    if (row.taken_from.empty()) row.taken_from = folder.string();
    rows[row.fingerprint] = {row, folder};
  }
}

}  // namespace

std::map<std::string, EarlierRow> earlier_rows(const fs::path& folder) {
  std::map<std::string, EarlierRow> rows;
  if (!fs::is_directory(folder)) return rows;
  std::string newest_refused;
  int refused = 0;
  for (const fs::path& file : result_files(folder)) {
    try {
      const json result = json::parse(read_whole(file));
      const int version = result.at("schema_version");
      if (version == kResultSchemaVersion) {
        add_rows(result, file.parent_path(), rows);
      } else {
        newest_refused = fmt::format("{} has schema version {}", file.string(), version);
        ++refused;
      }
    } catch (const std::exception& error) {
      throw ConfigError({.what = "an earlier result cannot be read",
                         .where = file.string(),
                         .got = error.what(),
                         .expected = "a result.json as ddprun wrote it",
                         .hint = "move it away, or run without --resume"});
    }
  }
  if (refused > 0) {
    spdlog::warn("--resume: {}, and this ddprun reads version {}: its rows run again{}",
                 newest_refused, kResultSchemaVersion,
                 refused > 1 ? fmt::format(" (and those of {} more)", refused - 1) : "");
  }
  return rows;
}

}  // namespace ddprun
