// Holds names against the patterns of groups.
#include "ddprun/optim/parameter_groups.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <cstddef>

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

std::vector<GroupSettings> group_settings(const std::vector<std::string>& names,
                                          const OptimizerConfig& config) {
  std::vector<GroupSettings> settings(names.size(), {.weight_decay = config.weight_decay});
  std::vector<bool> used(config.groups.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto group = std::ranges::find_if(
        config.groups, [&](const ParameterGroup& each) { return matches(names[i], each.match); });
    if (group == config.groups.end()) continue;
    settings[i] = {.lr_scale = group->lr_scale,
                   .weight_decay = group->weight_decay.value_or(config.weight_decay)};
    used[group - config.groups.begin()] = true;
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (used[i]) continue;
    refuse_pattern(
        fmt::format("optimizer.groups[{}].match", i), config.groups[i].match, names,
        "* stands for any text, dots included; what an earlier group has is not left, and "
        "what is frozen is not there");
  }
  return settings;
}

std::vector<GroupedRange> grouped_ranges(const ParameterLayout& layout,
                                         const OptimizerConfig& config) {
  const std::vector<GroupSettings> settings = group_settings(layout.names(), config);
  std::vector<GroupedRange> ranges;
  for (int index = 0; index < layout.count(); ++index) {
    const Range range = layout.with_padding(index);
    const bool copy_ends = range.begin == layout.copied().end;
    if (!ranges.empty() && ranges.back().settings == settings[index] && !copy_ends) {
      ranges.back().range.end = range.end;
    } else {
      ranges.push_back({range, settings[index]});
    }
  }
  return ranges;
}

}  // namespace ddprun
