// glob(3), whose order is that of the bytes here.
#include "ddprun/data/token_sequence.h"

#include <glob.h>

#include <filesystem>
#include <string_view>
#include <system_error>

#include "ddprun/base/error.h"

namespace ddprun {

namespace {

constexpr std::string_view kWildcards = "*?[";

/// The pattern of the path, whose folders that are there have the names that they have.
std::string pattern_of(const std::string& path) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  while (!folder.empty() && !std::filesystem::exists(folder, ignored)) {
    folder = folder.parent_path();
  }
  std::string pattern;
  for (const char c : folder.string()) {
    if (c == '\\' || kWildcards.find(c) != std::string_view::npos) pattern += '\\';
    pattern += c;
  }
  return pattern + path.substr(folder.string().size());
}

}  // namespace

std::vector<std::string> matching_files(const std::string& path) {
  std::error_code ignored;  // a pattern may be longer than a name may be
  if (path.find_first_of(kWildcards) == std::string::npos ||
      std::filesystem::exists(path, ignored)) {
    return {path};
  }
  glob_t found = {};
  const int status = ::glob(pattern_of(path).c_str(), GLOB_ERR | GLOB_NOSORT, nullptr, &found);
  std::vector<std::string> out(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (status != 0 || out.empty()) {
    throw ConfigError(
        {.what = "no file matches",
         .where = path,
         .got = status == GLOB_NOMATCH ? "nothing of that pattern" : "a folder that cannot be read",
         .expected = "a file at least",
         .hint = "paths in data: are relative to the YAML file's folder"});
  }
  std::ranges::sort(out);
  return out;
}

std::vector<std::string> matching_files(const std::vector<std::string>& paths) {
  std::vector<std::string> out;
  for (const std::string& path : paths) {
    const std::vector<std::string> found = matching_files(path);
    out.insert(out.end(), found.begin(), found.end());
  }
  return out;
}

}  // namespace ddprun
