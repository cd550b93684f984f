// Finds a result.json, and reads its rows.
#include "runner/compare/stored_result.h"

#include <algorithm>

#include "ddprun/base/error.h"
#include "runner/report/earlier_rows.h"

namespace ddprun {

namespace {

namespace fs = std::filesystem;

constexpr const char* kResult = "result.json";

/// Folders of results are named by time, and `latest` is a link to one.
fs::path result_in(const fs::path& folder) {
  for (const fs::path& file : {folder / kResult, folder / "latest" / kResult}) {
    if (fs::exists(file)) return file;
  }
  fs::path newest;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.is_directory() || !fs::exists(entry.path() / kResult)) continue;
    newest = std::max(newest, entry.path() / kResult);
  }
  return newest;
}

}  // namespace

StoredResult stored_result(const std::string& path) {
  std::error_code ignored;  // what cannot be looked at is not there
  const bool folder = fs::is_directory(path, ignored);
  const fs::path file = folder ? result_in(path) : fs::path(path);
  if (file.empty() || !fs::exists(file, ignored)) {
    throw ConfigError({.what = "there is no result",
                       .where = path,
                       .got = folder ? "a folder without a result.json" : "nothing of that name",
                       .expected = "a result.json, a result's folder, or a folder of results",
                       .hint = "a run writes to results/NAME/TIME, and results/NAME/latest is the "
                               "last"});
  }
  WholeResult whole = whole_result(file);
  StoredResult result = {path, file, std::move(whole.rows), std::move(whole.json)};
  if (result.rows.empty()) {
    throw ConfigError({.what = "the result has no rows",
                       .where = file.string(),
                       .got = "0 rows",
                       .expected = "a run that measured something",
                       .hint = "it was interrupted before its first row was done"});
  }
  return result;
}

}  // namespace ddprun
