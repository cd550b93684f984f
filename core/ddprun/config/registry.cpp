// Loads plugin libraries, checks each handshake before any C++ object crosses, makes plugins by
// name.
#include "ddprun/config/registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "ddprun/base/error.h"
#include "ddprun/base/shared_library.h"
#include "ddprun/config/options_io.h"

namespace ddprun {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSymbol = "ddprun_plugin_v1";
constexpr const char* kRebuild = "rebuild the plugin against this ddprun (ddprun_add_plugin)";

struct Library {
  PluginInfo info;
  const PluginDescriptor* descriptor;
};

using Key = std::pair<PluginKind, std::string>;
Key key_of(const Library& library) { return {library.info.kind, library.info.name}; }

std::string text_or_empty(const char* text) { return text == nullptr ? "" : text; }

[[noreturn]] void refuse(const fs::path& file, std::string what, std::string got,
                         std::string expected, std::string hint) {
  throw PluginError(
      {std::move(what), file.string(), std::move(got), std::move(expected), std::move(hint)});
}

void check_version(const PluginDescriptor& descriptor, const fs::path& file) {
  if (descriptor.api_version == kPluginApiVersion) return;
  const bool older = descriptor.api_version < kPluginApiVersion;
  refuse(file,
         older ? "the plugin was built for an older plugin API"
               : "the plugin was built for a newer plugin API",
         fmt::format("API {}", descriptor.api_version), fmt::format("API {}", kPluginApiVersion),
         older ? kRebuild : "update ddprun, or rebuild the plugin against this one");
}

/// Reads `size` first, and nothing that a smaller descriptor does not hold.
void check_size(const PluginDescriptor& descriptor, const fs::path& file) {
  if (descriptor.size == sizeof(PluginDescriptor)) return;
  // Another version explains another size, and says better what to do.
  if (descriptor.size >= offsetof(PluginDescriptor, build_id)) check_version(descriptor, file);
  refuse(file, "the plugin's descriptor has another size", fmt::format("{} bytes", descriptor.size),
         fmt::format("{} bytes", sizeof(PluginDescriptor)), kRebuild);
}

/// The handshake: the fields in the order of their declaration.
void check(const PluginDescriptor& descriptor, const fs::path& file) {
  check_size(descriptor, file);
  check_version(descriptor, file);
  if (const auto id = text_or_empty(descriptor.build_id); id != DDPRUN_BUILD_ID) {
    refuse(file, "the plugin was built differently from this ddprun", id, DDPRUN_BUILD_ID,
           "build it with the same LibTorch, compiler and build type");
  }
  if (descriptor.kind < static_cast<std::uint32_t>(PluginKind::strategy) ||
      descriptor.kind > static_cast<std::uint32_t>(PluginKind::attention)) {
    refuse(file, "the plugin is of an unknown kind", fmt::format("kind {}", descriptor.kind),
           "1 (strategy), 2 (precision) or 3 (attention)",
           "export it with DDPRUN_STRATEGY, DDPRUN_PRECISION or DDPRUN_ATTENTION");
  }
  const auto name = text_or_empty(descriptor.name);
  const bool characters_ok =
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
  if (name.empty() || !characters_ok) {
    refuse(file, "the plugin's name is malformed", fmt::format("'{}'", name),
           "one or more of a-z, 0-9 and _", "it is the name that a YAML file uses");
  }
  const auto present = [&](bool there, const char* what) {
    if (!there) {
      refuse(file, fmt::format("the plugin's descriptor lacks its {}", what), "a null pointer",
             fmt::format("the {} that DDPRUN_PLUGIN writes", what), kRebuild);
    }
  };
  present(descriptor.summary != nullptr, "summary");
  present(descriptor.version != nullptr, "version");
  present(descriptor.create != nullptr, "function `create`");
  present(descriptor.destroy != nullptr, "function `destroy`");
}

Library load(const fs::path& given) {
  const fs::path file = fs::weakly_canonical(given);
  const void* symbol = library_symbol(file, kSymbol, "the plugin library", kRebuild);
  if (symbol == nullptr) {
    refuse(file, "the library is not a ddprun plugin", fmt::format("no symbol {}", kSymbol),
           fmt::format("the symbol {}", kSymbol),
           "export the class with DDPRUN_STRATEGY, DDPRUN_PRECISION or DDPRUN_ATTENTION");
  }
  const auto& descriptor = *static_cast<const PluginDescriptor*>(symbol);
  check(descriptor, file);
  return {{static_cast<PluginKind>(descriptor.kind), descriptor.name, descriptor.summary,
           descriptor.version, file},
          &descriptor};
}

/// The *.so of a folder by name; links to one file count once.
std::vector<fs::path> libraries_in(const fs::path& folder) {
  std::set<fs::path> files;
  if (!fs::is_directory(folder)) return {};
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".so") files.insert(fs::weakly_canonical(entry.path()));
  }
  return {files.begin(), files.end()};
}

std::string indented(std::string text) {
  for (auto at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1)) {
    text.insert(at + 1, "  ");
  }
  return text;
}

}  // namespace

const char* to_string(PluginKind kind) {
  switch (kind) {
    case PluginKind::strategy:
      return "strategy";
    case PluginKind::precision:
      return "precision";
    case PluginKind::attention:
      return "attention";
  }
  return "unknown";
}

struct PluginRegistry::Impl {
  std::vector<fs::path> folders;
  std::vector<Library> libraries;  // those that win stand before those that they hide
  std::set<Key> claimed;           // by a folder, even if by two libraries that were both refused
  std::vector<std::string> refused;

  void scan(const fs::path& folder) {
    std::map<Key, std::vector<Library>> found;
    for (const auto& file : libraries_in(folder)) {
      try {
        const Library library = load(file);
        found[key_of(library)].push_back(library);
      } catch (const PluginError& error) {
        refused.push_back(error.what());
      }
    }
    for (const auto& [key, candidates] : found) {
      if (!claimed.insert(key).second) continue;
      if (candidates.size() == 1) {
        libraries.push_back(candidates.front());
      } else {
        refuse_duplicates(folder, candidates);
      }
    }
  }

  void refuse_duplicates(const fs::path& folder, const std::vector<Library>& candidates) {
    std::vector<std::string> files;
    for (const auto& library : candidates) files.push_back(library.info.file.filename().string());
    const auto& info = candidates.front().info;
    refused.push_back(
        PluginError({fmt::format("several libraries of one folder supply the {} '{}'",
                                 to_string(info.kind), info.name),
                     folder.string(), fmt::format("{}", fmt::join(files, ", ")),
                     "one library for each kind and name", "remove or rename all but one"})
            .what());
  }

  PluginError unknown(PluginKind kind, const std::string& name, const std::string& where) const {
    std::vector<std::string> known;
    for (const auto& library : libraries) {
      if (library.info.kind == kind) known.push_back(library.info.name);
    }
    std::sort(known.begin(), known.end());
    known.erase(std::unique(known.begin(), known.end()), known.end());
    const std::string near = nearest(name, known);
    std::string hint =
        near.empty() ? "`ddprun list` shows every plugin" : fmt::format("did you mean '{}'?", near);
    for (const auto& folder : folders) {
      hint += fmt::format("\n  searched: {}{}", folder.string(),
                          fs::is_directory(folder) ? "" : " (no such folder)");
    }
    for (const auto& text : refused) hint += "\n  refused: " + indented(text);
    return PluginError({fmt::format("unknown {} '{}'", to_string(kind), name), where, "",
                        known.empty() ? fmt::format("no {} plugin was found", to_string(kind))
                                      : fmt::format("{}", fmt::join(known, ", ")),
                        hint});
  }

  /// The library of that name that wins; from `file` alone if that is not empty.
  const Library& find(PluginKind kind, const std::string& name, const fs::path& file,
                      const std::string& where) const {
    const fs::path wanted = file.empty() ? file : fs::weakly_canonical(file);
    for (const auto& library : libraries) {
      const bool here = wanted.empty() || library.info.file == wanted;
      if (here && library.info.kind == kind && library.info.name == name) return library;
    }
    if (wanted.empty()) throw unknown(kind, name, where);
    for (const auto& library : libraries) {
      if (library.info.file != wanted) continue;
      throw PluginError(
          {fmt::format("the library does not supply the {} '{}'", to_string(kind), name), where,
           wanted.string(),
           fmt::format("its {} '{}'", to_string(library.info.kind), library.info.name),
           "correct the name or the path"});
    }
    throw PluginError({"the plugin library has not been loaded", where, wanted.string(),
                       "a library that was added to the registry", "call add_library() first"});
  }
};

PluginRegistry::PluginRegistry(const std::vector<fs::path>& folders)
    : impl_(std::make_unique<Impl>()) {
  for (const auto& given : folders) {
    const fs::path folder = fs::weakly_canonical(given);
    if (std::find(impl_->folders.begin(), impl_->folders.end(), folder) != impl_->folders.end()) {
      continue;
    }
    impl_->folders.push_back(folder);
    impl_->scan(folder);
  }
}

PluginRegistry::~PluginRegistry() = default;

void PluginRegistry::add_library(const fs::path& file) {
  const Library library = load(file);
  impl_->libraries.insert(impl_->libraries.begin(), library);
}

std::vector<PluginInfo> PluginRegistry::list() const {
  std::map<Key, PluginInfo> winners;
  for (const auto& library : impl_->libraries) winners.emplace(key_of(library), library.info);
  std::vector<PluginInfo> out;
  for (const auto& [key, info] : winners) out.push_back(info);
  return out;
}

std::vector<std::string> PluginRegistry::refused() const { return impl_->refused; }
const std::vector<fs::path>& PluginRegistry::folders() const { return impl_->folders; }

std::shared_ptr<Plugin> PluginRegistry::create(PluginKind kind, const std::string& name,
                                               const fs::path& file,
                                               const std::string& where) const {
  const Library& library = impl_->find(kind, name, file, where);
  const auto failed = [&](const std::string& got) {
    return PluginError({fmt::format("the {} '{}' cannot be created", to_string(kind), name),
                        library.info.file.string(), got, "an object of the plugin's class",
                        "its constructor is at fault"});
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
  return {plugin, library.descriptor->destroy};
}

std::vector<fs::path> plugin_search_path(const std::vector<fs::path>& first) {
  std::vector<fs::path> folders;
  const auto named = [&](const fs::path& folder, const char* source) {
    if (!fs::is_directory(folder)) {
      throw PluginError(
          {"the plugin folder is not there", source, folder.string(), "an existing folder", ""});
    }
    folders.push_back(folder);
  };
  for (const auto& folder : first) named(folder, "plugin path");
  const std::string variable = text_or_empty(std::getenv("DDPRUN_PLUGIN_PATH"));
  for (std::size_t begin = 0; begin < variable.size();) {
    const std::size_t end = std::min(variable.find(':', begin), variable.size());
    // An empty entry would mean the current directory elsewhere; here it means nothing.
    if (end > begin) named(variable.substr(begin, end - begin), "DDPRUN_PLUGIN_PATH");
    begin = end + 1;
  }
  const fs::path bin = fs::read_symlink("/proc/self/exe").parent_path();
  folders.push_back(bin.parent_path() / "lib" / "ddprun" / "plugins");
  folders.push_back(bin / "plugins");
  return folders;
}

namespace {

template <typename Interface>
std::shared_ptr<Interface> make(const PluginRegistry& registry, const PluginChoice& choice,
                                PluginKind kind) {
  const ConfigNode* name = choice.options.find("name");
  const std::string& where = name != nullptr ? name->origin : choice.options.origin;
  const auto plugin =
      std::dynamic_pointer_cast<Interface>(registry.create(kind, choice.name, choice.path, where));
  if (plugin == nullptr) {
    throw PluginError(
        {fmt::format("the {0} '{1}' is of a class that is no {0}", to_string(kind), choice.name),
         where, "", "", "its library exports it with the wrong macro"});
  }
  read_options(choice.options, to_string(kind),
               [&](Options& options) { plugin->declare_options(options); }, {"name", "path"});
  return plugin;
}

}  // namespace

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

}  // namespace ddprun
