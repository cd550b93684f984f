// A plugin as the YAML names it: `strategy: mine`, or `strategy: {name: mine, bucket_mb: 5, path:
// ./libmine.so}`.
#pragma once

#include <array>
#include <string>

#include "ddprun/config/config_node.h"
#include "ddprun/plugin/plugin.h"

namespace ddprun {

/// All kinds of plugin, in the order in which people read of them.
inline constexpr std::array kPluginKinds = {PluginKind::strategy, PluginKind::precision,
                                            PluginKind::attention};

struct PluginChoice {
  PluginKind kind = PluginKind::strategy;
  std::string name = {};
  std::string path = {};  ///< a library to load besides the search path; empty: none
  /// From which the plugin reads its options; "name" and "path" are not the plugin's.
  ConfigNode options = {};
};

}  // namespace ddprun
