// The typed form of one experiment: what a YAML file says, after presets, defaults, overrides and
// one point of a sweep.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/config/config_node.h"
#include "ddprun/config/options_io.h"
#include "ddprun/model/model_config.h"
#include "ddprun/plugin/plugin.h"

namespace ddprun {

/// `world.comm`-level settings that the process group needs.
struct CommConfig {
  std::string backend = "auto";   ///< auto | gloo | shm | hierarchical | nccl
  std::int64_t gloo_threads = 2;  ///< collectives that gloo runs at a time
  std::string interface =
      "";                   ///< network interface of gloo; empty: the one of the master's address
  double timeout_s = 60.0;  ///< of the rendezvous and of every collective
};

/// `world:`
struct WorldConfig {
  std::int64_t size = 1;
  std::string device = "cpu";
  std::int64_t threads_per_rank = 0;  ///< 0: the host's cores divided by its ranks, at least 1
  bool pin = true;                    ///< each local rank to its share of the cores
  bool emulate_ranks_on_one_gpu = false;
  CommConfig comm;  ///< its options stand directly under `world:` (backend, gloo_threads, ...)

  /// Several ranks share one GPU: what is computed is right, times mean nothing.
  bool emulated() const { return emulate_ranks_on_one_gpu && size > 1; }
};

/// `data:`
struct DataConfig {
  std::string source = "random";  ///< text | tokens | random
  std::vector<std::string> path =
      {};  ///< files or folders (text), files (tokens); relative to the YAML file
  std::string token_type = "uint16";  ///< uint16 | uint32, little-endian (tokens)
};

/// `optimizer.schedule:`
struct ScheduleConfig {
  std::string name = "constant";  ///< constant | cosine
  std::int64_t warmup_steps = 0;
  double min_lr = 0.0;
};

/// `optimizer:`
struct OptimizerConfig {
  std::string name = "adamw";  ///< adamw | sgd
  double lr = 1e-3;
  std::vector<double> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;
  double momentum = 0.0;
  double clip_norm = 0.0;  ///< 0: no clipping
  bool overlap = false;    ///< update ranges while others travel
  ScheduleConfig schedule;
};

/// `train:`
struct TrainConfig {
  std::int64_t global_batch =
      0;  ///< sequences per optimizer step over all ranks; 0: batch_per_rank * ranks
  std::int64_t batch_per_rank =
      0;  ///< 0: global_batch / ranks. Exactly one of the two is given in YAML
  std::int64_t accumulate = 1;    ///< micro-batches per optimizer step
  std::int64_t warmup_steps = 5;  ///< run and recorded, but outside the statistics
  std::int64_t steps = 10;        ///< measured
  std::int64_t seed = 0;
};

/// `profile:`
struct ProfileConfig {
  bool memory_snapshot = false;  ///< of rank 0's GPU, from set-up to the last warm-up step
};

/// `execution:`
struct ExecutionConfig {
  std::string mode = "eager";  ///< eager | cuda_graph
  /// Steps of a run with cuda_graph that are eager: what is allocated, chosen and connected at
  /// first use is there before a step is captured. The next is captured, and is of the warm-up too.
  static constexpr std::int64_t kEagerSteps = 2;
};

/// A plugin as the YAML names it: `strategy: mine` or `strategy: {name: mine, bucket_mb: 5,
/// path: ./libmine.so}`.
struct PluginChoice {
  PluginKind kind = PluginKind::strategy;
  std::string name;
  std::string path;    ///< a library to load besides the search path; empty: none
  ConfigNode options;  ///< the mapping from which the plugin reads its options; "name" and "path",
                       ///< if there, are not its own
};

/// One experiment: one row of a report.
struct Experiment {
  std::string name;   ///< of the YAML: `name:`, default the file's stem
  std::string label;  ///< of the sweep point; empty without a sweep
  ModelConfig model;
  DataConfig data;
  WorldConfig world;
  PluginChoice strategy, precision, attention;
  OptimizerConfig optimizer;
  TrainConfig train;
  ProfileConfig profile;
  ExecutionConfig execution;
  std::string output_dir = "results";
  std::vector<std::string> plugin_path;  ///< folders searched before the others

  std::int64_t batch_per_rank() const;  ///< sequences of one rank per optimizer step
  std::int64_t micro_batch() const;     ///< sequences of one forward
  std::int64_t global_batch() const;
  Setup setup() const;  ///< what plugins are asked about
  ConfigNode document;  ///< what it was read from
};

/// A YAML file: its experiments in order, one per sweep point.
struct ExperimentFile {
  std::filesystem::path file;
  std::string name;
  std::vector<Experiment> experiments;
};

/// Reads a file strictly, applies `overrides` ("key.path=value", each), expands the sweep, checks
/// each experiment alone (not its plugins). Paths (data.path, plugin_path, a plugin's path) are
/// made absolute; they are relative to the file's folder. `world_size`: of the launch that this
/// process joined; it replaces `world.size`, and 0 means none. Throws ConfigError for whatever
/// read_options and expand_sweep refuse, for a missing plugin choice, and for settings that
/// contradict each other or would be ignored (docs/errors.md lists them all).
ExperimentFile load_experiments(const std::filesystem::path& file,
                                const std::vector<std::string>& overrides, int world_size = 0);

/// The resolved experiment as YAML text, every default written out. Loading it gives the same
/// experiment. Plugin options are written as `options` of each choice has them: the caller that
/// knows the plugin sets that to write_options(plugin) before.
std::string to_yaml(const Experiment& experiment);

void declare_options(Options& options, DataConfig& config);
void declare_options(Options& options, WorldConfig& config);
void declare_options(Options& options, OptimizerConfig& config);
void declare_options(Options& options, TrainConfig& config);
void declare_options(Options& options, ProfileConfig& config);
void declare_options(Options& options, ExecutionConfig& config);

/// Every key of an experiment with its default, for docs and `ddprun describe`: "top level" first,
/// then section by section. The options of plugins are their own.
std::vector<std::pair<std::string, std::vector<OptionInfo>>> describe_sections();

}  // namespace ddprun
