// Patterns that choose parameters by their names.
#pragma once

#include <string>
#include <vector>

namespace ddprun {

/// The pattern's *, ? and [...] stand for any text, one letter, one of these letters (fnmatch).
bool matches(const std::string& name, const std::string& pattern);

/// Throws ConfigError: `pattern`, the value of `key`, chooses none of the parameters `names`.
[[noreturn]] void refuse_pattern(const std::string& key, const std::string& pattern,
                                 const std::vector<std::string>& names, const std::string& hint);

}  // namespace ddprun
