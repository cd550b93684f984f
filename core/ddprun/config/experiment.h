// The typed form of one experiment: what a YAML file says, after presets, defaults, overrides and
// one point of a sweep.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/config/attention_config.h"
#include "ddprun/config/baseline.h"
#include "ddprun/config/collectives_config.h"
#include "ddprun/config/config_node.h"
#include "ddprun/config/demonstration_config.h"
#include "ddprun/config/options_io.h"
#include "ddprun/config/plugin_choice.h"
#include "ddprun/config/repeat_config.h"
#include "ddprun/config/report_config.h"
#include "ddprun/config/run_config.h"
#include "ddprun/config/runnable_kind.h"
#include "ddprun/config/sweep.h"
#include "ddprun/config/world_config.h"
#include "ddprun/data/data_config.h"
#include "ddprun/model/model_config.h"
#include "ddprun/optim/optimizer_config.h"

namespace ddprun {

/// One experiment: one run, and one row of a report.
struct Experiment {
  const RunnableKind* kind = nullptr;  ///< `experiment:`
  std::string name;                    ///< of the YAML: `name:`, default the file's stem
  std::string label;                   ///< of the sweep point; empty without a sweep
  SweptValues point;                   ///< what the label says
  ModelConfig model;
  DataConfig data;
  WorldConfig world;
  PluginChoice strategy, precision, attention;
  OptimizerConfig optimizer;
  TrainConfig train;
  ProfileConfig profile;
  ExecutionConfig execution;
  CollectivesConfig collectives;
  AttentionConfig attention_call;
  DemonstrationConfig demonstration;
  RepeatConfig repeat;
  std::string output_dir = "results";
  std::vector<std::string> plugin_path;  ///< folders searched before the others
  /// DataSource::content_hash() of `data` and of eval_data() when the run was planned; 0: random,
  /// or never opened.
  std::uint64_t data_hash = 0;
  std::uint64_t eval_data_hash = 0;

  std::int64_t batch_per_rank() const;  ///< sequences of one rank per optimizer step
  std::int64_t micro_batch() const;     ///< sequences of one forward
  std::int64_t global_batch() const;
  DataConfig eval_data() const;  ///< what train.eval reads
  /// The plugins that its kind has, of `strategy`, `precision` and `attention`.
  std::vector<PluginChoice*> plugins();
  std::vector<const PluginChoice*> plugins() const;
  /// Whether its kind has that section.
  bool has_section(const std::string& key) const;
  ConfigNode document;  ///< what it was read from
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
/// `world.size`; 0 means none. Throws ConfigError for whatever read_options and expand_sweep
/// refuse, for a missing plugin choice or section, for one of another kind, and for settings that
/// contradict each other or would be ignored (docs/errors.md lists them all).
ExperimentFile load_experiments(const std::filesystem::path& file,
                                const std::vector<std::string>& overrides, const Kinds& kinds,
                                int world_size = 0);

/// The resolved experiment, with every default written out. Loading it gives the same experiment.
/// Plugin options are written as they stand in `options` of each choice. A caller that knows the
/// plugin sets those to write_options(plugin) before.
ConfigNode resolve(const Experiment& experiment);

/// Every key of an experiment with its default, for docs and `ddprun describe`: "top level" first,
/// then section by section, those of all kinds. Options of plugins are not among them.
std::vector<std::pair<std::string, std::vector<OptionInfo>>> describe_sections(const Kinds& kinds);

}  // namespace ddprun
