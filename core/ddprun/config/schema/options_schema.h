// Declared options, and sweeps over them, as a JSON Schema, and as the lines of its file.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ddprun/base/options.h"

namespace ddprun {

/// A schema of draft 7, whose keys stand in the order in which they were declared.
using Schema = nlohmann::ordered_json;

/// A mapping with these options, each with its type, limits, default and help, and with no other
/// key. The defaults are the present values, as for list_options().
Schema options_schema(const std::function<void(Options&)>& declare);

Schema one_of_schema(const std::vector<std::string>& names);

/// `schema` with `help` before it.
Schema described(const std::string& help, const Schema& schema);

/// A reference to the definition of that name, which the schema of the whole has.
Schema reference(const std::string& definition);

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

/// Objects and lists stand on one line each if they fit, else with a line or more for each element.
std::string lines_of(const Schema& schema);

}  // namespace ddprun
