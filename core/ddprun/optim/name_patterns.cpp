// Matching by the C library, and the refusal of a pattern without effect.
#include "ddprun/optim/parameter_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>

#include "ddprun/base/error.h"

namespace ddprun {

bool matches(const std::string& name, const std::string& pattern) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

void refuse_pattern(const std::string& key, const std::string& pattern,
                    const std::vector<std::string>& names, const std::string& hint) {
  constexpr std::ptrdiff_t kShown = 11;
  const auto shown = std::min(kShown, std::ssize(names));
  throw ConfigError({.what = key + " chooses no parameter",
                     .where = key,
                     .got = pattern.empty() ? "no pattern" : "\"" + pattern + "\"",
                     .expected = fmt::format("a pattern of names such as {}{}",
                                             fmt::join(names.begin(), names.begin() + shown, ", "),
                                             shown < std::ssize(names) ? ", ..." : ""),
                     .hint = hint});
}

}  // namespace ddprun
