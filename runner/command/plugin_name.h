// What a plugin of the user's own may be called: in YAML, as files, and as a class.
#pragma once

#include <string>

namespace ddprun {

/// Throws ConfigError if the name cannot be a plugin's, an experiment's and a file's, or if no
/// class can be called by it. The hint is the nearest that can, for "MyRing" and "my-ring" alike.
void check_plugin_name(const std::string& name);

/// The class of a plugin: "MyRing" for "my_ring".
std::string class_name(const std::string& name);

}  // namespace ddprun
