// Paths with wildcards.
#pragma once

#include <string>
#include <vector>

namespace ddprun {

/// What `*`, `?` and `[...]` in a path match, in order; a path without them, and one that is there
/// as it stands, is itself. Throws ConfigError if nothing matches.
std::vector<std::string> matching_files(const std::string& path);
/// The same of several, one after another.
std::vector<std::string> matching_files(const std::vector<std::string>& paths);

}  // namespace ddprun
