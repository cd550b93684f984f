// One plugin library: tried in a child process, so that a damaged one cannot take this process
// down, loaded, and its descriptor checked.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/base/error.h"
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/plugin.h"

namespace ddprun {

/// What became of a library; both parts are empty if it came through.
struct Trial {
  std::string death;                      ///< how it ended the child: "killed by signal 11 ..."
  std::optional<ErrorText> refusal = {};  ///< the error that was thrown

  bool passed() const { return death.empty() && !refusal; }
};

const char* to_string(PluginKind kind);

/// A loaded library's descriptor, in C++ types.
struct PluginInfo {
  PluginKind kind;
  std::string name;
  std::string summary;
  std::string version;
  std::filesystem::path file;
};

struct PluginLibrary {
  PluginInfo info;
  const PluginDescriptor* descriptor;
};

/// Does in a child process what the launching process will do with each library: loads it, checks
/// its descriptor, makes its plugin and asks for its options; and what a process does that exits.
/// What failed there shall not be tried again in this process: the loader itself may crash over a
/// damaged file, or not, as memory happens to be. There is one child for all files, and one more
/// for each that ends it. A file is not tried again unless it was written to. Throws PluginError if
/// the system has no process left.
std::map<std::filesystem::path, Trial> try_plugin_libraries(
    const std::vector<std::filesystem::path>& files);

/// Loads a library that passed its trial (RTLD_NOW | RTLD_LOCAL, never unloaded) and checks its
/// descriptor field by field. Throws PluginError, each mismatch with its own sentence: crashed when
/// it was tried; not a library; no symbol ddprun_plugin_v1; wrong size; older API; newer API; other
/// build id; unknown kind; malformed name; missing function.
PluginLibrary load_plugin_library(const std::filesystem::path& file, const Trial& trial);

}  // namespace ddprun
