// Searches folders for plugin libraries, and makes plugins by name.
#include "ddprun/config/registry.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <boost/algorithm/string/replace.hpp>
#include <cstdlib>
#include <map>
#include <set>
#include <system_error>

#include "ddprun/base/error.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"
#include "ddprun/config/options_io.h"
#include "ddprun/plugin/called.h"

namespace ddprun {

namespace fs = std::filesystem;

namespace {

using Key = std::pair<PluginKind, std::string>;
Key key_of(const PluginLibrary& library) { return {library.info.kind, library.info.name}; }

/// Without links; a path that cannot be resolved as it is.
fs::path resolved(const fs::path& path) {
  std::error_code error;
  fs::path real = fs::weakly_canonical(path, error);
  return error ? path : real;
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// The *.so of a folder by name; links to one file count once.
std::vector<fs::path> libraries_in(const fs::path& folder) {
  std::set<fs::path> files;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() == ".so") files.insert(resolved(entry->path()));
  }
  if (error) {
    throw PluginError({.what = "the plugin folder cannot be read",
                       .where = folder.string(),
                       .got = error.message(),
                       .expected = "a folder that can be listed",
                       .hint = "mend its rights, or leave it out of the plugin path"});
  }
  return {files.begin(), files.end()};
}

/// What keep_plugins() keeps; null before its first call. Never destroyed: see there.
std::vector<std::shared_ptr<Plugin>>* kept_plugins = nullptr;

template <typename Interface>
std::shared_ptr<Interface> make(const PluginRegistry& registry, const PluginChoice& choice,
                                PluginKind kind) {
  const ConfigNode* name = choice.options.find("name");
  const std::string& where = name != nullptr ? name->origin : choice.options.origin;
  const auto plugin =
      std::dynamic_pointer_cast<Interface>(registry.create(kind, choice.name, choice.path, where));
  if (plugin == nullptr) {
    throw PluginError({.what = fmt::format("the {0} '{1}' is of a class that is no {0}",
                                           to_string(kind), choice.name),
                       .where = where,
                       .got = "a class of another kind",
                       .expected = "a class derived from the interface of its kind",
                       .hint = "its library exports it with the wrong macro"});
  }
  plugin->called = fmt::format("{} {}", to_string(kind), choice.name);
  const auto declare = [&](Options& options) {
    called(*plugin, "declare_options()", [&] { plugin->declare_options(options); });
  };
  read_options(choice.options, to_string(kind), declare, {"name", "path"});
  plugin->options_text = compact(write_options(declare));
  return plugin;
}

}  // namespace

struct PluginRegistry::Impl {
  std::vector<fs::path> folders;
  std::vector<PluginLibrary> libraries;  // those that win stand before those that they hide
  std::set<Key> claimed;           // by a folder, even if by two libraries that were both refused
  std::map<Key, fs::path> hidden;  // the first that a folder before it hides
  std::vector<std::string> refused;

  void scan(const fs::path& folder) {
    if (!is_folder(folder)) return;
    std::vector<fs::path> files;
    std::map<fs::path, Trial> trials;
    try {
      files = libraries_in(folder);
      trials = try_plugin_libraries(files);
    } catch (const PluginError& error) {
      refused.push_back(error.what());
      return;
    }
    std::map<Key, std::vector<PluginLibrary>> found;
    for (const auto& file : files) {
      try {
        const PluginLibrary library = load_plugin_library(file, trials.at(file));
        found[key_of(library)].push_back(library);
      } catch (const PluginError& error) {
        refused.push_back(error.what());
      }
    }
    for (const auto& [key, candidates] : found) {
      if (!claimed.insert(key).second) {
        hidden.emplace(key, candidates.front().info.file);
        continue;
      }
      if (candidates.size() == 1) {
        libraries.push_back(candidates.front());
      } else {
        refuse_duplicates(folder, candidates);
      }
    }
  }

  void refuse_duplicates(const fs::path& folder, const std::vector<PluginLibrary>& candidates) {
    const auto files = mapped(candidates, [](const PluginLibrary& library) {
      return library.info.file.filename().string();
    });
    const auto& info = candidates.front().info;
    refused.push_back(
        PluginError({.what = fmt::format("several libraries of one folder supply the {} '{}'",
                                         to_string(info.kind), info.name),
                     .where = folder.string(),
                     .got = list_text(files),
                     .expected = "one library for each kind and name",
                     .hint = "remove or rename all but one"})
            .what());
  }

  PluginError unknown(PluginKind kind, const std::string& name, const std::string& where) const {
    std::set<std::string> names;
    for (const auto& library : libraries) {
      if (library.info.kind == kind) names.insert(library.info.name);
    }
    const std::vector<std::string> known(names.begin(), names.end());
    std::string hint = did_you_mean(
        name, known,
        "`ddprun list` shows every plugin; one of your own lies where plugin_path in the YAML, or "
        "--plugin-path, says");
    for (const auto& folder : folders) {
      hint += fmt::format("\n  searched: {}{}", folder.string(),
                          is_folder(folder) ? "" : " (no such folder)");
    }
    for (const auto& text : refused)
      hint += "\n  refused: " + boost::replace_all_copy(text, "\n", "\n  ");
    return PluginError({.what = fmt::format("unknown {} '{}'", to_string(kind), name),
                        .where = where,
                        .got = printable_line(name),
                        .expected = known.empty()
                                        ? fmt::format("no {} plugin was found", to_string(kind))
                                        : list_text(known),
                        .hint = hint});
  }

  /// The library of that name that wins; from `file` alone if that is not empty.
  const PluginLibrary& find(PluginKind kind, const std::string& name, const fs::path& file,
                            const std::string& where) const {
    const fs::path wanted = file.empty() ? file : resolved(file);
    for (const auto& library : libraries) {
      const bool here = wanted.empty() || library.info.file == wanted;
      if (here && library.info.kind == kind && library.info.name == name) return library;
    }
    if (wanted.empty()) throw unknown(kind, name, where);
    for (const auto& library : libraries) {
      if (library.info.file != wanted) continue;
      throw PluginError(
          {.what = fmt::format("the library does not supply the {} '{}'", to_string(kind), name),
           .where = where,
           .got = wanted.string(),
           .expected = fmt::format("its {} '{}'", to_string(library.info.kind), library.info.name),
           .hint = "correct the name or the path"});
    }
    throw PluginError({.what = "the plugin library has not been loaded",
                       .where = where,
                       .got = wanted.string(),
                       .expected = "a library that was added to the registry",
                       .hint = "call add_library() first"});
  }
};

PluginRegistry::PluginRegistry(const std::vector<fs::path>& folders)
    : impl_(std::make_unique<Impl>()) {
  for (const auto& given : folders) {
    const fs::path folder = resolved(given);
    if (contains(impl_->folders, folder)) continue;
    impl_->folders.push_back(folder);
    impl_->scan(folder);
  }
}

PluginRegistry::~PluginRegistry() = default;

void PluginRegistry::add_library(const fs::path& file) {
  const fs::path real = resolved(file);
  const PluginLibrary library = load_plugin_library(real, try_plugin_libraries({real}).at(real));
  impl_->libraries.insert(impl_->libraries.begin(), library);
}

std::vector<PluginInfo> PluginRegistry::list() const {
  std::map<Key, PluginInfo> winners;
  for (const auto& library : impl_->libraries) winners.emplace(key_of(library), library.info);
  return mapped(winners, &std::pair<const Key, PluginInfo>::second);
}

std::vector<std::string> PluginRegistry::refused() const { return impl_->refused; }
const std::vector<fs::path>& PluginRegistry::folders() const { return impl_->folders; }

std::string PluginRegistry::hiding(const PluginChoice& choice) const {
  const Key key = {choice.kind, choice.name};
  const auto hidden = impl_->hidden.find(key);
  const auto taken = std::ranges::find(impl_->libraries, key, key_of);
  const bool both = hidden != impl_->hidden.end() && taken != impl_->libraries.end();
  if (!both || !choice.path.empty()) return {};
  return fmt::format("{} {} is that of {}, which hides that of {}", to_string(choice.kind),
                     choice.name, taken->info.file.string(), hidden->second.string());
}

std::shared_ptr<Plugin> PluginRegistry::create(PluginKind kind, const std::string& name,
                                               const fs::path& file,
                                               const std::string& where) const {
  const PluginLibrary& library = impl_->find(kind, name, file, where);
  const auto failed = [&](const std::string& got) {
    return PluginError({.what = fmt::format("the {} '{}' cannot be created", to_string(kind), name),
                        .where = library.info.file.string(),
                        .got = got,
                        .expected = "an object of the plugin's class",
                        .hint = "its constructor is at fault"});
  };
  Plugin* plugin = nullptr;
  try {
    plugin = library.descriptor->create();
  } catch (const std::exception& error) {
    throw failed(error.what());
  } catch (...) {
    throw failed("an exception that is no std::exception");
  }
  if (plugin == nullptr) throw failed("a null pointer");
  const std::shared_ptr<Plugin> made(plugin, library.descriptor->destroy);
  if (kept_plugins != nullptr) kept_plugins->push_back(made);
  return made;
}

void keep_plugins() {
  if (kept_plugins == nullptr) kept_plugins = new std::vector<std::shared_ptr<Plugin>>;
  kept_plugins->clear();
}

std::vector<fs::path> plugin_search_path(const std::vector<fs::path>& first) {
  std::vector<fs::path> folders;
  const auto named = [&](const fs::path& folder, const char* source) {
    if (!is_folder(folder)) {
      throw PluginError({.what = "the plugin folder is not there",
                         .where = source,
                         .got = folder.string(),
                         .expected = "an existing folder",
                         .hint = "correct or remove it; `ddprun list -v` shows what is searched"});
    }
    folders.push_back(folder);
  };
  for (const auto& folder : first) named(folder, "plugin path");
  const char* const set = std::getenv("DDPRUN_PLUGIN_PATH");
  const std::string variable = set == nullptr ? "" : set;
  for (const std::string& folder : split_at(variable, ':')) {
    // An empty entry would mean the current directory elsewhere; here it means nothing.
    if (!folder.empty()) named(folder, "DDPRUN_PLUGIN_PATH");
  }
  std::error_code error;
  const fs::path bin = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (error) {
    throw PluginError({.what = "this program cannot find its own folder, where its plugins are",
                       .where = "/proc/self/exe",
                       .got = error.message(),
                       .expected = "a mounted /proc",
                       .hint = "mount -t proc proc /proc"});
  }
  folders.push_back(bin.parent_path() / "lib" / "ddprun" / "plugins");
  folders.push_back(bin / "plugins");
  // A program of the user's own is not beside them, and its library is.
  Dl_info library = {};
  dladdr(reinterpret_cast<const void*>(&plugin_search_path), &library);
  const fs::path beside = fs::weakly_canonical(library.dli_fname).parent_path();
  if (beside != bin.parent_path() / "lib") folders.push_back(beside / "ddprun" / "plugins");
  return folders;
}

std::shared_ptr<Strategy> make_strategy(const PluginRegistry& registry,
                                        const PluginChoice& choice) {
  return make<Strategy>(registry, choice, PluginKind::strategy);
}

std::shared_ptr<Precision> make_precision(const PluginRegistry& registry,
                                          const PluginChoice& choice) {
  return make<Precision>(registry, choice, PluginKind::precision);
}

std::shared_ptr<Attention> make_attention(const PluginRegistry& registry,
                                          const PluginChoice& choice) {
  return make<Attention>(registry, choice, PluginKind::attention);
}

std::shared_ptr<Plugin> make_plugin(const PluginRegistry& registry, const PluginChoice& choice) {
  switch (choice.kind) {
    case PluginKind::strategy:
      return make_strategy(registry, choice);
    case PluginKind::precision:
      return make_precision(registry, choice);
    case PluginKind::attention:
      return make_attention(registry, choice);
  }
  return nullptr;
}

}  // namespace ddprun
