// The choice of a plugin by its YAML.
#pragma once

#include <string>

#include "ddprun/config/config_node.h"
#include "ddprun/config/plugin_choice.h"

namespace ddprun::test {

/// "{name: zero1, bucket_mb: 1}".
inline PluginChoice choice_of(PluginKind kind, const std::string& yaml) {
  PluginChoice choice;
  choice.kind = kind;
  choice.options = parse_yaml(yaml, "test");
  choice.name = choice.options.find("name")->scalar;
  return choice;
}

inline PluginChoice strategy_choice(const std::string& yaml) {
  return choice_of(PluginKind::strategy, yaml);
}

}  // namespace ddprun::test
