// Finds a result.json, and reads its rows.
#include "runner/compare/result_comparison.h"

#include <fmt/format.h>

#include <algorithm>

#include "ddprun/base/error.h"
#include "runner/report/earlier_rows.h"

namespace ddprun {

namespace {

namespace fs = std::filesystem;

constexpr const char* kResult = "result.json";
constexpr const char* kLatest = "latest";

/// What of a result a folder holds.
struct FolderContents {
  fs::path newest = {};     ///< its result.json, or that of its latest result; empty: none
  std::size_t results = 0;  ///< in folders of it; 0 too if it is one itself
  std::vector<fs::path> deeper = {};  ///< folders in it that hold results
};

bool is_result(const fs::path& folder) { return fs::exists(folder / kResult); }

/// Folders of results are named by time, and `latest` is a link to one.
FolderContents contents_of(const fs::path& folder) {
  if (is_result(folder)) return {folder / kResult};
  FolderContents out;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.is_directory() || entry.path().filename() == kLatest) continue;
    if (is_result(entry.path())) {
      ++out.results;
      out.newest = std::max(out.newest, entry.path() / kResult);
    } else if (is_result(entry.path() / kLatest)) {
      out.deeper.push_back(entry.path());
    }
  }
  if (is_result(folder / kLatest)) out.newest = folder / kLatest / kResult;
  return out;
}

[[noreturn]] void throw_no_result(const std::string& path, bool folder,
                                  const std::vector<fs::path>& deeper) {
  std::string got = folder ? "a folder without a result.json" : "nothing of that name";
  std::string hint = "a run writes to results/NAME/TIME, and results/NAME/latest is the last";
  if (!deeper.empty()) {
    got = fmt::format("a folder of folders of results, {} of them", deeper.size());
    hint = "name one or more of them: " + std::ranges::min(deeper).string();
  }
  throw ConfigError({.what = "there is no result",
                     .where = path,
                     .got = got,
                     .expected = "a result.json, a result's folder, or a folder of results",
                     .hint = hint});
}

}  // namespace

StoredResult stored_result(const std::string& path) {
  std::error_code ignored;  // what cannot be looked at is not there
  const bool folder = fs::is_directory(path, ignored);
  const FolderContents contents = folder ? contents_of(path) : FolderContents{path};
  const fs::path& file = contents.newest;
  if (file.empty() || !fs::exists(file, ignored)) throw_no_result(path, folder, contents.deeper);
  WholeResult whole = whole_result(file);
  StoredResult result = {path, file, contents.results, std::move(whole.rows),
                         std::move(whole.json)};
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
