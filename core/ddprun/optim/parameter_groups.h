// Which settings of the optimizer hold for which parameters, by patterns of their names.
#pragma once

#include <string>
#include <vector>

#include "ddprun/optim/optimizer_config.h"
#include "ddprun/optim/parameter_layout.h"

namespace ddprun {

/// The pattern's *, ? and [...] stand for any text, one letter, one of these letters (fnmatch).
bool matches(const std::string& name, const std::string& pattern);

/// Throws ConfigError: `pattern`, the value of `key`, chooses none of the parameters `names`.
[[noreturn]] void refuse_pattern(const std::string& key, const std::string& pattern,
                                 const std::vector<std::string>& names, const std::string& hint);

/// What may differ between the parameters that an optimizer updates.
struct GroupSettings {
  double lr_scale = 1.0;  ///< of the step's learning rate
  double weight_decay = 0.0;
  friend bool operator==(const GroupSettings&, const GroupSettings&) = default;
};

/// A range of the buffers whose elements have the same settings.
struct GroupedRange {
  Range range;
  GroupSettings settings;
};

/// The settings of each of these parameters: of the first group that matches its name, or the
/// optimizer's own. Throws ConfigError if a group is left without a parameter.
std::vector<GroupSettings> group_settings(const std::vector<std::string>& names,
                                          const OptimizerConfig& config);

/// Ranges that make up the whole buffer, by begin, as few as there can be; none is copied in part.
/// Throws as group_settings().
std::vector<GroupedRange> grouped_ranges(const ParameterLayout& layout,
                                         const OptimizerConfig& config);

}  // namespace ddprun
