// Compiles <regex>, once for all test programs.
#include "support/matches.h"

#include <regex>

namespace ddprun::test {

std::vector<Match> matches_of(const std::string& text, const std::string& pattern) {
  std::vector<Match> out;
  const std::regex regex(pattern);
  for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match) {
    out.push_back({(*match)[match->size() > 1 ? 1 : 0],
                   static_cast<std::size_t>(match->position() + match->length())});
  }
  return out;
}

std::vector<std::string> groups_of(const std::string& text, const std::string& pattern) {
  std::vector<std::string> out;
  for (const Match& match : matches_of(text, pattern)) out.push_back(match.group);
  return out;
}

}  // namespace ddprun::test
