// A kind of experiment, whole: what its files say, what is checked before a rank starts, and what a
// rank does.
#pragma once

#include <any>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ddprun/config/run_context.h"
#include "ddprun/plugin/plugin.h"
#include "ddprun/result/account.h"
#include "ddprun/result/experiment_kind.h"
#include "ddprun/result/rank_result.h"

namespace ddprun {

struct Experiment;
class Options;
class PluginRegistry;

struct KindSection {
  std::string key;  ///< "train"
  std::string help;
  std::function<void(Options&, Experiment&)> declare;
  bool required = false;  ///< whether every file of the kind has it
};

/// What a file of one kind says, besides `experiment`, `name`, `sweep` and `report`. Any other
/// section or plugin is refused, as it would have no effect.
struct KindFile {
  std::any own;                          ///< Experiment::own, before a file is read
  std::vector<KindSection> sections;     ///< in the order of the resolved YAML
  std::vector<PluginKind> plugins = {};  ///< that must be chosen
};

/// What a rank reads for one sample of a step.
struct SampleRead {
  std::int64_t rank = 0;
  std::int64_t micro_batch = 0;  ///< of the rank's step
  std::int64_t sample = 0;       ///< of the global batch
  std::string place = {};        ///< "a.txt 96..99, b.txt 0..4": tokens of files, the last included
  std::string bytes = {};        ///< of data whose tokens are text: all of the sample
  std::int64_t documents = 0;    ///< that it has tokens of; 0: nobody says where one ends
  std::int64_t targets = 0;      ///< tokens whose loss counts
};

struct KindContent {
  std::string key;                      ///< where the file names it: "data.path"
  std::vector<std::string> identity;    ///< what is equal in it is not read again
  std::function<std::uint64_t()> hash;  ///< reads it. Throws ConfigError.
  bool of_its_runs = false;  ///< the experiment's own runs leave it: it is the same one with any
};

/// One object a kind. experiments/kinds.h lists them.
class RunnableKind : public ExperimentKind {
 public:
  const KindFile& file() const { return file_; }

  /// The kind's own paths in a file, which are relative to its folder.
  virtual std::vector<std::string*> paths(Experiment&) const { return {}; }
  /// Throws ConfigError if settings contradict each other, or if one has no effect beside the
  /// others. What holds for every kind was checked.
  virtual void check(const Experiment& experiment) const = 0;
  /// Throws ConfigError if the plugins, or backends, lack something that the experiment needs, on
  /// whatever machine. The registry has made all plugins of the experiment.
  virtual void check_plugins(const Experiment&, const PluginRegistry&) const {}
  /// Throws ConfigError if this machine cannot run what is valid. Its devices are there.
  /// `local_ranks`: ranks on this machine as far as it is known. Returns the account if it was
  /// needed for that.
  virtual std::optional<Account> check_machine(const Experiment&, const PluginRegistry&,
                                               std::int64_t /*local_ranks*/) const {
    return {};
  }
  /// What a rank of each experiment will hold and send, by that alone: nothing runs, and this
  /// machine does not count. Empty: the kind does not predict it. `ranks_per_host` 0: all are on
  /// one. Throws ConfigError if the plugins refuse.
  virtual std::vector<Account> accounts(std::span<const Experiment* const> experiments,
                                        const PluginRegistry& registry,
                                        std::int64_t ranks_per_host) const;
  /// Whether its strategy promises that each gradient becomes the mean over the ranks, so that such
  /// experiments train alike. Nothing: the kind does not train. check_plugins() has passed.
  virtual std::optional<bool> trains_exactly(const Experiment&, const PluginRegistry&) const {
    return {};
  }
  /// What is read into Experiment::contents when the run is planned.
  virtual std::vector<KindContent> contents(const Experiment&) const { return {}; }
  /// What the ranks of the experiment read in step `step`, by rank and in the order in which they
  /// read it. Nothing: the kind reads no data. Throws ConfigError if there is no such step.
  virtual std::optional<std::vector<SampleRead>> reads(const Experiment&,
                                                       std::int64_t /*step*/) const {
    return {};
  }
  /// What all ranks do together in one step: Run::work. check_plugins() has passed.
  virtual nlohmann::json work(const Experiment&, const PluginRegistry&) const {
    return nlohmann::json::object();
  }
  /// Whether rank 0 writes files of its own into RunFolders::profile.
  virtual bool ranks_write(const Experiment&) const { return false; }
  /// Whether rank 0 writes what Experiment::live asks for.
  virtual bool has_live_outputs() const { return false; }

  /// Runs the experiment as this rank in this process. Returns the results of all ranks, in rank
  /// order, each as the JSON of a RankResult, on rank 0; on the others nothing. If a check before
  /// the first step failed, no step runs: the results have the checks and no samples. Throws
  /// ddprun::Error.
  virtual std::vector<std::string> run_rank(const Experiment& experiment,
                                            const PluginRegistry& registry,
                                            const RunContext& context) const = 0;

  /// Throws ConfigError if runs of the experiment have done all of it: of a sweep the other points
  /// go on. Its contents() are read.
  virtual void check_unfinished(const Experiment&) const {}
  /// Throws ConfigError if what an earlier run saved is in its way: its row fails.
  virtual void check_unsaved(const Experiment&) const {}
  /// Tells apart what runs of the experiment save last, which another run can go on from; 0:
  /// nothing is there. Throws ConfigError if it cannot be read.
  virtual std::uint64_t saved(const Experiment&) const { return 0; }
  /// Lets the experiment go on from what is there: saved() is not 0.
  virtual void go_on(Experiment&) const {}

  /// Seconds that ranks may take to end when they are asked to; those that save first take longer.
  virtual double end_grace_s(const Experiment&) const { return 2; }

  /// Throws ConfigError if `ddprun verify` has nothing to compare, or, with `parameter_bound`, if
  /// parameters cannot be compared.
  virtual void check_verify(const Experiment& experiment, const PluginRegistry& registry,
                            bool parameter_bound) const;
  /// What a rank does for `ddprun verify`: rank 0 returns what it found.
  virtual nlohmann::json verify_rank(const Experiment&, const PluginRegistry&,
                                     const RunContext&) const {
    return {};
  }

  /// Throws ConfigError if the two have no steps that `ddprun diff` can compare: `follows` then
  /// makes each step from what `leads` had before it.
  virtual void check_lockstep(const Experiment& leads, const Experiment& follows,
                              const PluginRegistry& registry) const;
  /// What a rank does for `ddprun diff`: rank 0 returns what it found.
  virtual nlohmann::json lockstep_rank(const Experiment&, const PluginRegistry&, const RunContext&,
                                       const LockstepPart&) const {
    return {};
  }

 protected:
  RunnableKind(KindWords words, KindFile file)
      : ExperimentKind(std::move(words)), file_(std::move(file)) {}

 private:
  KindFile file_;
};

/// All kinds that a file may name. The first is that of a file that names none.
using Kinds = std::vector<const RunnableKind*>;

}  // namespace ddprun
