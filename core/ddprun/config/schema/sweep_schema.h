// What `sweep:` may hold, by the schema of what it sweeps over.
#pragma once

#include <string>

#include "ddprun/config/schema/options_schema.h"

namespace ddprun {

/// Each key path below a mapping with `properties`, with the values that it may be given: a list,
/// or a range where there are integers. `where` is the path of the mapping, with a dot behind it
/// unless it is the document; `definition` is the definition whose properties they are.
Schema swept_properties(const Schema& properties, const std::string& where,
                        const std::string& definition);

/// A list of values that are as `value` says; a range stands for a list if `range`, of which the
/// first value is held against `value`.
Schema swept_values(const std::string& help, const Schema& value, bool range);

/// The definitions that swept_values() refers to.
Schema sweep_definitions();

/// The document sweeps over a key path that matches `pattern`.
Schema sweeps_over(const std::string& pattern);

/// The document sweeps over `path`, and one of its values is as `value` says.
Schema sweeps_over(const std::string& path, const Schema& value);

}  // namespace ddprun
