// Which settings of an experiment `ddprun tune` tries: each combination of values of some keys.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/config/config_node.h"
#include "ddprun/plugin/plugin.h"

namespace ddprun {

struct TunedKey {
  std::string key;                      ///< "strategy.bucket_mb"
  std::vector<ConfigNode> values = {};  ///< as the user wrote them; empty: not written
};

/// What is asked about plugins.
struct TunedPlugins {
  /// Those that are installed.
  std::function<std::vector<std::string>(PluginKind)> names;
  std::function<bool(PluginKind, const std::string& name, const std::string& option)> has_option;
};

/// "strategy,train.accumulate=1|2": keys between commas, values between bars. Throws ConfigError
/// for a key that is empty or there twice, and for a value that is no YAML.
std::vector<TunedKey> parse_over(const std::string& text);

/// Throws ConfigError unless each key changes how a step is computed, and not what is trained.
/// `known`: all keys of an experiment, without those of plugins.
void check_tuned(const std::vector<TunedKey>& keys, const std::vector<std::string>& known);

/// The keys with the values that are tried: those that the user wrote, else those of the sweep of
/// `document`, else those that are declared for the key. Throws ConfigError if there are none, or
/// if no installed plugin has such an option.
std::vector<TunedKey> with_values(std::vector<TunedKey> keys, const ConfigNode& document,
                                  const TunedPlugins& plugins);

struct Candidate {
  /// By key; options of a plugin are part of its choice: {name: bucketed, bucket_mb: 4}.
  std::vector<std::pair<std::string, ConfigNode>> values;
  /// "strategy=bucketed(bucket_mb=4), model.unit=layer".
  std::string label() const;
  /// The values alone: "bucketed(bucket_mb=4) + layer".
  std::string name() const;
  /// As --set has them.
  std::vector<std::string> overrides() const;
};

/// Every combination, each once. An option that the chosen plugin does not have has no value there.
/// A plugin that `document` chooses keeps the options that it has there.
std::vector<Candidate> candidates_of(const ConfigNode& document, const std::vector<TunedKey>& keys,
                                     const TunedPlugins& plugins);

/// What `document` says of the keys, or else `resolved`.
Candidate candidate_of(const ConfigNode& document, const ConfigNode& resolved,
                       const std::vector<TunedKey>& keys);

}  // namespace ddprun
