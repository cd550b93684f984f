// Plans a batch: reads the files, asks the plugins, and refuses everything that can be refused
// before a rank starts.
//
// Family: plan.cpp plugin_alternatives.cpp
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ddprun/config/experiment.h"
#include "ddprun/config/registry.h"

namespace ddprun {

struct PlanOptions {
  std::vector<std::string> overrides;     ///< --set
  std::vector<std::string> plugin_paths;  ///< --plugin-path
  std::string output;                     ///< --output; empty: the YAML's output_dir
  int joined_world_size = 0;              ///< ranks of the launch that this process joined; 0: none
};

struct PlannedRun {
  Experiment experiment;  ///< plugin options written out in full
  std::shared_ptr<const PluginRegistry> registry;
  ConfigNode resolved;  ///< what the experiment says with every default written out
  std::string fingerprint;
  nlohmann::json work;        ///< Run::work
  nlohmann::json conditions;  ///< what it will be measured under, as far as this process can tell
  std::string baseline;       ///< the fingerprint of the run that it is compared with; empty: none
  std::optional<Account> account = {};  ///< if a check needed it; account_of() has it anyway
  std::string not_here;  ///< why this machine cannot run it, though it is valid; empty: it can
  bool fails = false;    ///< not_here is what an earlier run left: its row fails
};

struct PlannedFile {
  std::filesystem::path file;
  std::string name;
  std::string output_dir;
  ConfigNode document;  ///< with overrides applied, before the sweep
  std::vector<PlannedRun> runs;
  ReportConfig report;
  std::string baseline_words;  ///< Baseline::words
  std::string error;           ///< why it was refused; runs is then empty
};

/// The groups of Run::conditions that are the same for all runs of a process: its machine, its
/// software, and the environment, but for variables that ranks have of their own.
nlohmann::json process_conditions();

/// The runs of the file's rows, row by row: of each row as many as report.repeats says. With
/// report.aa a row that others are compared with runs twice in each round.
struct PlannedTurn {
  const PlannedRun* run;
  std::int64_t repetition = 1, round = 1;  ///< as in Run
  bool last_in_round = false;              ///< the second of a row that runs twice
};
std::vector<PlannedTurn> turns_of(const PlannedFile& plan);

/// A line each; empty ones are none.
std::string each_once(const std::vector<std::string>& reasons);

/// Why this machine cannot run the whole file: its error, or else what is not here for one or more
/// of its runs, each reason once. Empty: it can.
std::string obstacles(const PlannedFile& plan);

/// Whether the ranks of one of its runs write files.
bool ranks_write(const PlannedFile& plan);

/// Files as given, and folders as the *.yaml and *.yml in them and their subfolders, in order of
/// path. Hidden folders, results, and links to folders are left out.
struct FileList {
  std::vector<std::filesystem::path> files;
  bool from_folder = false;  ///< a folder was among the paths
};
/// Throws ConfigError for a path that does not exist or a folder without YAML files.
FileList collect_files(const std::vector<std::string>& paths);

/// What the experiments of a batch share while they are planned.
class PlanCache {
 public:
  /// The registry of these folders and libraries. There is one for each combination, so that a
  /// library that one experiment names by path is not seen by the others. Warns once of each
  /// library that is refused.
  std::shared_ptr<const PluginRegistry> registry(
      const std::vector<std::filesystem::path>& folders,
      const std::vector<std::filesystem::path>& libraries);
  /// Reads what the experiment's kind says (RunnableKind::contents()), unless the same was read
  /// before, and enters the hashes. Returns those that tell the experiment apart, a line each.
  /// Throws ConfigError.
  std::string read_contents(Experiment& experiment);
  /// Warns in these words, once. Empty: there is nothing to say.
  void warn(const std::string& words);

 private:
  std::map<std::vector<std::filesystem::path>, std::shared_ptr<const PluginRegistry>> registries_;
  std::set<std::string> warned_;
  std::map<std::vector<std::string>, std::uint64_t> hashes_;  ///< by KindContent::identity
};

/// Reads one file and checks each of its experiments with its plugins. A refusal is not thrown; it
/// stands in the plan's `error`. What this machine lacks for a valid experiment stands in its
/// `not_here`; its data may then be elsewhere, too. In a joined launch it is a refusal, as the
/// ranks on other machines would wait for this one.
PlannedFile plan_file(const std::filesystem::path& file, const PlanOptions& options,
                      PlanCache& cache);

/// Calls check(experiment). If it throws PluginRefusal, throws that with a hint that also names the
/// installed plugins with any of which, and its defaults, in the place of the one that is there
/// `check` throws no Error: "attention eager or sdpa, or precision fp32". At most three of a kind,
/// and how many more there are.
void check_with_alternatives(const Experiment& experiment, const PluginRegistry& registry,
                             const std::function<void(const Experiment&)>& check);

}  // namespace ddprun
