// Which plugins are tried together, and on how many ranks.
#pragma once

#include <array>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "ddprun/config/experiment.h"
#include "ddprun/plugin/plugin.h"

namespace ddprun {

struct Combination {
  std::string strategy, precision, attention;
  int ranks = 1;
  ConfigNode strategy_options = {};  // null: the defaults
  BackendKind backend = BackendKind::shm;
};

/// What stands behind the strategy's name in that of a combination: nothing with default options.
inline constexpr std::array kOptionNames = {"", "_at_its_minimum", "_with_other_values"};
std::string name_of(const Combination& combination);
void PrintTo(const Combination& combination, std::ostream* out);

/// A small training run with them.
Experiment experiment_of(const Combination& combination);
/// Why one of the experiment's plugins cannot run in it.
std::optional<Refusal> refusal(PluginKind kind, const Experiment& experiment);
bool supported(const Experiment& experiment);

/// The names of all plugins of a kind.
std::vector<std::string> discovered(PluginKind kind);
/// All combinations that are supported.
const std::vector<Combination>& combinations();

}  // namespace ddprun
