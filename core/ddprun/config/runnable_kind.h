// A kind of experiment, whole: what its files say, what is checked before a rank starts, and what a
// rank does.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ddprun/config/run_context.h"
#include "ddprun/plugin/plugin.h"
#include "ddprun/result/experiment_kind.h"
#include "ddprun/result/rank_result.h"

namespace ddprun {

struct Experiment;
class PluginRegistry;

/// What a file of one kind says, besides `experiment`, `name`, `sweep` and `report`. Any other
/// section or plugin is refused, as it would have no effect.
struct KindKeys {
  std::vector<std::string> sections;       ///< that may be there
  std::vector<std::string> required = {};  ///< of these, those that must be there
  std::vector<PluginKind> plugins = {};    ///< that must be chosen
};

/// One object a kind. experiments/kinds.h lists them.
class RunnableKind : public ExperimentKind {
 public:
  virtual const KindKeys& keys() const = 0;

  /// Throws ConfigError if settings contradict each other, or if one has no effect beside the
  /// others. What holds for every kind was checked.
  virtual void check(const Experiment& experiment) const = 0;
  /// Throws ConfigError if the plugins, or backends, lack something that the experiment needs, on
  /// whatever machine. The registry has made all plugins of the experiment.
  virtual void check_plugins(const Experiment& /*experiment*/,
                             const PluginRegistry& /*registry*/) const {}
  /// Throws ConfigError if this machine cannot run what is valid. Its devices are there.
  /// `local_ranks`: ranks on this machine as far as it is known.
  virtual void check_machine(const Experiment& /*experiment*/, const PluginRegistry& /*registry*/,
                             std::int64_t /*local_ranks*/) const {}
  /// What all ranks do together in one step: Run::work.
  virtual nlohmann::json work(const Experiment& experiment) const = 0;

  /// Runs the experiment as this rank in this process. Returns the results of all ranks, in rank
  /// order, on every rank. If a check before the first step failed, no step runs: the results have
  /// the checks and no samples. Throws ddprun::Error.
  virtual std::vector<RankResult> run_rank(const Experiment& experiment,
                                           const PluginRegistry& registry,
                                           const RunContext& context) const = 0;

  /// What a rank does for `ddprun verify`: rank 0 returns what it found.
  using VerifyRank = std::function<nlohmann::json(
      const Experiment& experiment, const PluginRegistry& registry, const RunContext& context)>;
  /// Empty: there is nothing to verify.
  virtual VerifyRank verify_rank() const { return {}; }

 protected:
  using ExperimentKind::ExperimentKind;
};

/// All kinds that a file may name. The first is that of a file that names none.
using Kinds = std::vector<const RunnableKind*>;

}  // namespace ddprun
