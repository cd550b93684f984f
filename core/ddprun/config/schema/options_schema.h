// Declared options as a JSON Schema.
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

/// A text that is one of `names`.
Schema one_of_schema(const std::vector<std::string>& names);

/// `schema` with `help` before it.
Schema described(const std::string& help, const Schema& schema);

/// A reference to the definition of that name, which the schema of the whole has.
Schema reference(const std::string& definition);

}  // namespace ddprun
