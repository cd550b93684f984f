// Regular expressions for tests. <regex> takes seconds to compile, and is compiled once for all.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ddprun::test {

struct Match {
  std::string group;  ///< the first, or all
  std::size_t end;    ///< behind the match
};

/// All matches of an ECMAScript pattern.
std::vector<Match> matches_of(const std::string& text, const std::string& pattern);

/// Their groups.
std::vector<std::string> groups_of(const std::string& text, const std::string& pattern);

}  // namespace ddprun::test
