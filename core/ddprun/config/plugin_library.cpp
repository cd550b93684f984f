// Tries, loads and checks plugin libraries: each handshake before any C++ object crosses. A child
// that tries them writes a line for each library, and ends it when the library's destructors have
// run, so that its parent knows at which one it died, and when.
#include "ddprun/config/plugin_library.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <mutex>
#include <sstream>
#include <system_error>

#include "ddprun/base/child_process.h"
#include "ddprun/base/crash_words.h"
#include "ddprun/base/json.h"
#include "ddprun/base/regular_file.h"
#include "ddprun/base/shared_library.h"
#include "ddprun/config/options_io.h"

namespace ddprun {

namespace fs = std::filesystem;

namespace {

using nlohmann::json;

constexpr double kLimitS = 30;
/// Of static destructors; then SIGALRM ends the child.
constexpr unsigned kDestructorsLimitS = 5;

/// All 0 if there is no file.
FileIdentity identity_of(const fs::path& file) {
  struct stat status = {};
  return ::stat(file.c_str(), &status) == 0 ? ddprun::identity_of(status) : FileIdentity();
}

struct Known {
  std::mutex mutex;
  std::map<FileIdentity, Trial> trials;
};

Known& known() {
  static auto& the_one = *new Known;
  return the_one;
}

constexpr const char* kSymbol = "ddprun_plugin_v1";
constexpr const char* kExport =
    "export the class with DDPRUN_STRATEGY, DDPRUN_PRECISION or DDPRUN_ATTENTION";
constexpr const char* kRebuild = "rebuild the plugin against this ddprun (ddprun_add_plugin)";

std::string text_or_empty(const char* text) { return text == nullptr ? "" : text; }

void check_version(const PluginDescriptor& descriptor, const fs::path& file) {
  if (descriptor.api_version == kPluginApiVersion) return;
  const bool older = descriptor.api_version < kPluginApiVersion;
  throw PluginError(
      {.what =
           fmt::format("the plugin was built for {} plugin API", older ? "an older" : "a newer"),
       .where = file.string(),
       .got = fmt::format("API {}", descriptor.api_version),
       .expected = fmt::format("API {}", kPluginApiVersion),
       .hint = older ? kRebuild : "update ddprun, or rebuild the plugin against this one"});
}

/// Reads `size` first, and nothing that a smaller descriptor does not hold.
void check_size(const PluginDescriptor& descriptor, const fs::path& file) {
  if (descriptor.size == sizeof(PluginDescriptor)) return;
  // Another version explains another size, and says better what to do.
  if (descriptor.size >= offsetof(PluginDescriptor, build_id)) check_version(descriptor, file);
  throw PluginError({.what = "the plugin's descriptor has another size",
                     .where = file.string(),
                     .got = fmt::format("{} bytes", descriptor.size),
                     .expected = fmt::format("{} bytes", sizeof(PluginDescriptor)),
                     .hint = kRebuild});
}

/// The handshake: the fields in the order of their declaration.
void check(const PluginDescriptor& descriptor, const fs::path& file) {
  check_size(descriptor, file);
  check_version(descriptor, file);
  if (const auto id = text_or_empty(descriptor.build_id); id != DDPRUN_BUILD_ID) {
    throw PluginError({.what = "the plugin was built differently from this ddprun",
                       .where = file.string(),
                       .got = id,
                       .expected = DDPRUN_BUILD_ID,
                       .hint = "build it with the same LibTorch, compiler and build type"});
  }
  if (descriptor.kind < static_cast<std::uint32_t>(PluginKind::strategy) ||
      descriptor.kind > static_cast<std::uint32_t>(PluginKind::attention)) {
    throw PluginError({.what = "the plugin is of an unknown kind",
                       .where = file.string(),
                       .got = fmt::format("kind {}", descriptor.kind),
                       .expected = "1 (strategy), 2 (precision) or 3 (attention)",
                       .hint = kExport});
  }
  const auto name = text_or_empty(descriptor.name);
  const bool characters_ok =
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
  if (name.empty() || !characters_ok) {
    throw PluginError({.what = "the plugin's name is malformed",
                       .where = file.string(),
                       .got = fmt::format("'{}'", name),
                       .expected = "one or more of a-z, 0-9 and _",
                       .hint = "it is the name that a YAML file uses"});
  }
  const auto present = [&](bool there, const char* what) {
    if (!there) {
      throw PluginError({.what = fmt::format("the plugin's descriptor lacks its {}", what),
                         .where = file.string(),
                         .got = "a null pointer",
                         .expected = fmt::format("the {} that DDPRUN_PLUGIN writes", what),
                         .hint = kRebuild});
    }
  };
  present(descriptor.summary != nullptr, "summary");
  present(descriptor.version != nullptr, "version");
  present(descriptor.create != nullptr, "function `create`");
  present(descriptor.destroy != nullptr, "function `destroy`");
}

PluginLibrary load(const fs::path& file) {
  const void* symbol = library_symbol(file, kSymbol, "the plugin library", kRebuild);
  if (symbol == nullptr) {
    throw PluginError({.what = "the library is not a ddprun plugin",
                       .where = file.string(),
                       .got = fmt::format("no symbol {}", kSymbol),
                       .expected = fmt::format("the symbol {}", kSymbol),
                       .hint = kExport});
  }
  const auto& descriptor = *static_cast<const PluginDescriptor*>(symbol);
  check(descriptor, file);
  return {{static_cast<PluginKind>(descriptor.kind), descriptor.name, descriptor.summary,
           descriptor.version, file},
          &descriptor};
}

/// What the launching process will do with a library before any rank starts. That a plugin cannot
/// be made is said to whoever asks for it.
void use_once(const fs::path& file) {
  const PluginLibrary library = load(file);
  try {
    if (Plugin* const plugin = library.descriptor->create()) {
      list_options([plugin](Options& options) { plugin->declare_options(options); });
      library.descriptor->destroy(plugin);
    }
  } catch (...) {
    return;
  }
}

/// In the child.
void try_one(const fs::path& file, int fd) {
  try {
    use_once(file);
    write_all(fd, json_text(nullptr));
    std::signal(SIGALRM, SIG_DFL);
    ::alarm(kDestructorsLimitS);
    run_static_destructors(file);
    ::alarm(0);
    write_all(fd, "\n");
  } catch (const Error& error) {
    write_all(fd, json_text(error.text()) + "\n");
  }
}

Trial trial_of(const std::string& line) {
  const json refusal = parse_json(line);
  return refusal.is_null() ? Trial() : Trial{{}, refusal.get<ErrorText>()};
}

/// Tries the files from `first` on, and returns the first that was not reached.
std::size_t try_from(std::size_t first, const std::vector<fs::path>& files,
                     std::map<fs::path, Trial>& trials) {
  const ChildReport report = run_in_child(
      [&](int fd) {
        for (std::size_t i = first; i < files.size(); ++i) try_one(files[i], fd);
      },
      kLimitS);
  std::istringstream lines(report.text);
  std::string line;
  while (std::getline(lines, line) && !lines.eof()) trials[files[first++]] = trial_of(line);
  if (first < files.size()) {
    trials[files[first++]] = {report.death + (line.empty() ? "" : ", in a static destructor")};
  }
  return first;
}

std::map<fs::path, Trial> try_libraries(const std::vector<fs::path>& files) {
  const std::lock_guard lock(known().mutex);
  std::map<fs::path, Trial> trials;
  std::vector<fs::path> untried;
  for (const fs::path& file : files) {
    const auto found = known().trials.find(identity_of(file));
    if (found == known().trials.end()) {
      untried.push_back(file);
    } else {
      trials[file] = found->second;
    }
  }
  for (std::size_t first = 0; first < untried.size();) {
    first = try_from(first, untried, trials);
  }
  for (const fs::path& file : untried) {
    if (const FileIdentity identity = identity_of(file); identity != FileIdentity()) {
      known().trials[identity] = trials[file];
    }
  }
  return trials;
}

PluginError crashed(const fs::path& file, const std::string& how) {
  return PluginError({.what = "the plugin library crashed when it was tried",
                      .where = file.string(),
                      .got = how,
                      .expected = "a library that can be loaded, makes its plugin, and ends",
                      .hint = "it is damaged, or its code is at fault: copy or build it again"});
}

}  // namespace

const char* to_string(PluginKind kind) {
  constexpr std::array kNames = {"strategy", "precision", "attention"};
  return kNames.at(static_cast<std::size_t>(kind) - 1);
}

std::map<fs::path, Trial> try_plugin_libraries(const std::vector<fs::path>& files) {
  try {
    return try_libraries(files);
  } catch (const std::system_error& error) {
    throw PluginError({.what = "plugin libraries cannot be tried in a child process",
                       .where = files.front().parent_path().string(),
                       .got = error.what(),
                       .expected = "one more process and two more descriptors",
                       .hint = "`ulimit -a` shows the limits of processes and open files"});
  }
}

PluginLibrary load_plugin_library(const fs::path& file, const Trial& trial) {
  if (trial.passed()) {
    // The loader reads past the tables of a damaged file. What it finds there was harmless in the
    // child, and may not be here.
    constexpr int kUsage = 2;  // the exit status of a plugin that cannot be used
    const PluginError error = crashed(file, "a crash of this process, and none of its child");
    const CrashWords words(std::string("error: ") + error.what() + "\n", kUsage);
    return load(file);
  }
  if (trial.refusal) {
    ErrorText text = *trial.refusal;
    text.where = file.string();  // it may have been tried under another name
    throw PluginError(std::move(text));
  }
  throw crashed(file, trial.death);
}

}  // namespace ddprun
