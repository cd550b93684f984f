// The typed form of one experiment: what a YAML file says, after presets, defaults, overrides and
// one point of a sweep.
#pragma once

#include <any>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/config/config_node.h"
#include "ddprun/config/options_io.h"
#include "ddprun/config/plugin_choice.h"
#include "ddprun/config/repeat_config.h"
#include "ddprun/config/report_config.h"
#include "ddprun/config/runnable_kind.h"
#include "ddprun/config/sweep.h"
#include "ddprun/config/world_config.h"
#include "ddprun/live/live_config.h"

namespace ddprun {

/// One experiment: one run, and one row of a report.
struct Experiment {
  Experiment() = default;
  /// With the kind's defaults; its plugins have no name yet.
  explicit Experiment(const RunnableKind& kind);

  const RunnableKind* kind = nullptr;  ///< `experiment:`
  std::string name;                    ///< of the YAML: `name:`, default the file's stem
  std::string label;                   ///< of the sweep point; empty without a sweep
  SweptValues point;                   ///< what the label says
  WorldConfig world;
  std::vector<PluginChoice> plugins;  ///< those that its kind has
  RepeatConfig repeat;
  std::string output_dir = "results";
  LiveConfig live = {};                  ///< the rest of `output:`
  std::vector<std::string> plugin_path;  ///< folders searched before the others
  /// The hash of each RunnableKind::contents() by its key, since the run was planned.
  std::map<std::string, std::uint64_t> contents;
  ConfigNode document;  ///< what it was read from
  std::any own;         ///< what its kind alone knows

  /// The choice of that kind, which is among `plugins`.
  PluginChoice& plugin(PluginKind kind);
  const PluginChoice& plugin(PluginKind kind) const;
  /// `own`, whose type its kind knows.
  template <class Own>
  Own& as() {
    return std::any_cast<Own&>(own);
  }
  template <class Own>
  const Own& as() const {
    return std::any_cast<const Own&>(own);
  }
};

/// A YAML file: its experiments in order, one per sweep point.
struct ExperimentFile {
  std::filesystem::path file;
  std::string name;
  ConfigNode document;  ///< with overrides applied, before the sweep
  std::vector<Experiment> experiments;
  ReportConfig report;
  Baseline baseline;  ///< which experiment each is compared with
};

/// Reads a file strictly, as one of its kind of `kinds`, applies `overrides` (each
/// "key.path=value"), expands the sweep, and checks each experiment, but not its plugins. Paths
/// (data.path, plugin_path, a plugin's path) are relative to the file's folder and are made
/// absolute. `world_size` is that of the launch that this process joined, and replaces
/// `world.size`; 0 means none. Throws ConfigError for whatever read_options and for_each_point
/// refuse, for a missing plugin choice or section, for one of another kind, and for settings that
/// contradict each other or would be ignored (docs/errors.md lists them all).
ExperimentFile load_experiments(const std::filesystem::path& file,
                                const std::vector<std::string>& overrides, const Kinds& kinds,
                                int world_size = 0);

/// What the files of a kind may say, each in a declaration: first which kind it is, whose name goes
/// to `name`; then its sections, `name` and `plugin_path`; of each plugin what is not the plugin's
/// own. The rest are ReportConfig, find_baseline() and the sweep.
inline constexpr const char* kKindKey = "experiment";
inline constexpr const char* kPluginPathKey = "plugin_path";
void declare_kind(Options& options, std::string& name, const Kinds& kinds);
void declare_document(Options& options, Experiment& experiment);
void declare_choice(Options& options, PluginChoice& choice);

/// What plugins of that kind decide: "how attention is computed".
const char* plugin_help(PluginKind kind);

/// Which plugin of a kind a document names; the path of its library is as it stands there. Messages
/// call the document `file` where it names none. Throws ConfigError.
PluginChoice read_choice(const ConfigNode& document, PluginKind kind,
                         const std::filesystem::path& file);

/// The resolved experiment, with every default written out. Loading it gives the same experiment.
/// Plugin options are written as they stand in `options` of each choice. A caller that knows the
/// plugin sets those to write_options(plugin) before.
ConfigNode resolve(const Experiment& experiment);

/// Every key of an experiment with its default, for docs and `ddprun describe`: "top level" first,
/// then section by section, those of all kinds. A section that several kinds have alike is there
/// once. Options of plugins are not among them.
std::vector<std::pair<std::string, std::vector<OptionInfo>>> describe_sections(const Kinds& kinds);

/// The sections that several kinds have.
KindSection world_section();
KindSection repeat_section();
KindSection output_section();

/// A section that is all that a kind has of its own, of type Own.
template <class Own>
KindSection own_section(std::string key, std::string help) {
  return {std::move(key), std::move(help),
          [](Options& o, Experiment& e) { declare_options(o, e.as<Own>()); }, /*required=*/true};
}
/// A section that is a part of it, and may be left out.
template <class Own, class Part>
KindSection own_section(std::string key, std::string help, Part Own::*part) {
  return {std::move(key), std::move(help),
          [part](Options& o, Experiment& e) { declare_options(o, e.as<Own>().*part); }};
}

}  // namespace ddprun
