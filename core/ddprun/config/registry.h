// Finds plugin libraries and makes plugin objects by name.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "ddprun/config/plugin_choice.h"
#include "ddprun/config/plugin_library.h"
#include "ddprun/plugin/attention.h"
#include "ddprun/plugin/plugin.h"
#include "ddprun/plugin/precision.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// The plugins that were found. A library is tried in a child process first, so that a damaged one
/// cannot take this process down (plugin_library.h).
class PluginRegistry {
 public:
  /// Scans folders in order for *.so. A library that cannot be used throws nothing but is noted in
  /// refused(), because it matters only to those who ask for it. If two libraries in one folder
  /// have the same kind and name, both are refused, with a sentence that names both. In different
  /// folders the first folder wins.
  explicit PluginRegistry(const std::vector<std::filesystem::path>& folders);
  ~PluginRegistry();
  PluginRegistry(const PluginRegistry&) = delete;
  PluginRegistry& operator=(const PluginRegistry&) = delete;

  /// Loads one more library, which wins over those found before. Throws PluginError.
  void add_library(const std::filesystem::path& file);

  std::vector<PluginInfo> list() const;      ///< sorted by kind, then name
  std::vector<std::string> refused() const;  ///< one message per library that failed
  const std::vector<std::filesystem::path>& folders() const;
  /// If another folder has a plugin of the choice's kind and name, too: which of the two it is, in
  /// words. Empty: it has not, or the choice names its library.
  std::string hiding(const PluginChoice& choice) const;

  /// Makes a new plugin; its options are not yet declared. If `file` is given, it comes from that
  /// library, which was added before, and from no other. Messages call the asker `where`. Throws
  /// PluginError if the name is unknown; the message has the nearest name, all known names of that
  /// kind, the folders searched, and what was refused. Throws PluginError also if the plugin's
  /// constructor throws.
  std::shared_ptr<Plugin> create(PluginKind kind, const std::string& name,
                                 const std::filesystem::path& file = {},
                                 const std::string& where = {}) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The folders where plugins are looked for: `first` (the YAML's, then --plugin-path), then
/// DDPRUN_PLUGIN_PATH (colon-separated), then beside the executable (<exe>/../lib/ddprun/plugins
/// and <exe>/plugins), then beside libddprun_core (<lib>/ddprun/plugins). The current directory is
/// never searched by itself. Throws PluginError if a folder of `first` or of the variable does not
/// exist.
std::vector<std::filesystem::path> plugin_search_path(
    const std::vector<std::filesystem::path>& first);

/// These call create() and read_options() for the choice; the plugin is then ready for setup. If
/// the choice has a path, the caller has added that library before (add_library), and the plugin
/// comes from it. Throw PluginError or ConfigError.
std::shared_ptr<Strategy> make_strategy(const PluginRegistry& registry, const PluginChoice& choice);
std::shared_ptr<Precision> make_precision(const PluginRegistry& registry,
                                          const PluginChoice& choice);
std::shared_ptr<Attention> make_attention(const PluginRegistry& registry,
                                          const PluginChoice& choice);

std::shared_ptr<Plugin> make_plugin(const PluginRegistry& registry, const PluginChoice& choice);

/// For a rank, before a run: plugins that are made from now on live until the next call, whoever
/// lets go of them, and those since the last call end now. A plugin's destructor may crash, and
/// would take along what its run has measured, and nobody has written yet.
void keep_plugins();

}  // namespace ddprun
