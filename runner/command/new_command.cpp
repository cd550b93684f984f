// `ddprun new`: the sources of a plugin of the user's own, which are an example's under other
// names.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <boost/algorithm/string/replace.hpp>
#include <filesystem>
#include <iostream>
#include <map>
#include <ranges>
#include <system_error>

#include "ddprun/base/durable_file.h"
#include "ddprun/base/error.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/regular_file.h"
#include "ddprun/base/text.h"
#include "ddprun/config/options_io.h"
#include "runner/command/commands.h"
#include "runner/command/out_file.h"
#include "runner/command/plugin_name.h"
#include "runner/launch/shipped_files.h"

namespace ddprun {

namespace {

namespace fs = std::filesystem;

/// Files of one folder: name -> text.
using Sources = std::map<std::string, std::string>;

// What stands there is of a command that was cut short.
constexpr const char* kUnfinished = ".ddprun-unfinished";

void check_kind(const std::string& kind) {
  const auto kinds =
      mapped(kPluginKinds, [](PluginKind each) { return std::string(to_string(each)); });
  if (contains(kinds, kind)) return;
  const std::string near = nearest(kind, kinds);
  throw ConfigError({.what = "there is no such kind of plugin",
                     .where = "the command line",
                     .got = kind,
                     .expected = list_text(kinds),
                     .hint = near.empty() ? "ddprun new strategy my_strategy"
                                          : "did you mean `ddprun new " + near + "`?"});
}

void check_is_new(const PluginRegistry& registry, const std::string& name) {
  for (const PluginInfo& info : registry.list()) {
    if (info.name != name) continue;
    throw ConfigError({.what = "a plugin has this name already",
                       .where = info.file.string(),
                       .got = fmt::format("{} {}: {}", to_string(info.kind), name, info.summary),
                       .expected = "a name that `ddprun list` does not show",
                       .hint = "take another one, as in my_" + name});
  }
}

/// The example's sources, as those of a plugin `name`. The example is called as its one C++ file.
Sources renamed_example(const fs::path& example, const std::string& name) {
  Sources sources;
  std::string old;
  for (const fs::directory_entry& entry : fs::directory_iterator(example)) {
    sources[entry.path().filename()] = read_whole(entry.path());
    if (entry.path().extension() == ".cpp") old = entry.path().stem();
  }
  Sources renamed;
  for (auto& [file, text] : sources) {
    boost::replace_all(text, old, name);
    boost::replace_all(text, class_name(old), class_name(name));
    renamed[boost::replace_all_copy(file, old, name)] = std::move(text);
  }
  return renamed;
}

/// Throws ConfigError if something stands in the way.
void check_is_free(const fs::path& folder) {
  if (!fs::exists(folder)) return;
  std::string found = fs::is_directory(folder) ? "" : "a file of that name";
  if (found.empty()) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      if (entry.path().filename() != kUnfinished) found = entry.path().filename();
    }
  }
  if (found.empty()) return;
  throw ConfigError({.what = "the folder of a new plugin is not empty",
                     .where = folder.string(),
                     .got = found,
                     .expected = "a new folder, or an empty one",
                     .hint = "-o FOLDER names another"});
}

/// Beside the folder, or in one that is there, under a hidden name. Then in its place.
void write_whole(const Sources& sources, const fs::path& folder, const fs::path& hidden) {
  fs::remove_all(hidden);
  fs::create_directories(hidden);
  for (const auto& [file, text] : sources) {
    if (const int error = write_durably(hidden / file, text)) {
      throw std::system_error(error, std::generic_category());
    }
  }
  if (!fs::exists(folder)) {
    fs::rename(hidden, folder);
    return;
  }
  for (const auto& [file, text] : sources) fs::rename(hidden / file, folder / file);
  fs::remove(hidden);
}

void write_sources(const Sources& sources, const std::string& where) {
  const fs::path folder = new_folder(where);
  fs::path hidden;
  try {
    check_is_free(folder);
    hidden = fs::exists(folder)
                 ? folder / kUnfinished
                 : folder.parent_path() / ("." + folder.filename().string() + kUnfinished);
    write_whole(sources, folder, hidden);
  } catch (const std::system_error& error) {
    std::error_code ignored;
    if (!hidden.empty()) fs::remove_all(hidden, ignored);
    throw ConfigError({.what = "the sources of a new plugin cannot be written",
                       .where = folder.string(),
                       .got = error.code().message(),
                       .expected = "a folder that may be written to, and room on its disk",
                       .hint = "-o FOLDER names another"});
  }
}

}  // namespace

int new_command(const Request& request) {
  const std::string& kind = request.kind;
  const std::string& name = request.name;
  check_kind(kind);
  check_plugin_name(name);
  check_is_new(open_registry(request), name);
  const Sources sources = renamed_example(shipped_file(fs::path(kShippedPlugins) / kind), name);
  const fs::path folder = request.output.empty() ? name : request.output;
  write_sources(sources, folder);
  const std::string build = shell_word(folder / "build");
  std::cout << printable(fmt::format(
      "{0} {1}: {2} holds {3}\n"
      "Build it, try it with each plugin of the other kinds, run it beside a built-in one:\n\n"
      "cmake -S {2} -B {4} -DCMAKE_PREFIX_PATH=\"$(ddprun --cmake-dir)\" && cmake --build {4}\n"
      "ddprun-contract {5}\n"
      "ddprun {6}\n",
      kind, name, shell_word(folder), fmt::join(std::views::keys(sources), ", "), build,
      shell_word(folder / "build" / (kind + "_" + name + ".so")),
      shell_word(folder / (name + ".yaml"))));
  return kExitDone;
}

}  // namespace ddprun
