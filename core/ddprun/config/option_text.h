// How options and their values are put in words; shared by reading, writing and listing.
#pragma once

#include <optional>
#include <string>

#include "ddprun/base/options.h"

namespace ddprun {

/// "integer", "list of numbers", ...
std::string type_name(const OptionTarget& target);

/// ">= 0.001", "1 to 64", "constant, cosine"; empty: any.
std::string allowed_text(const Limits& limits);

/// The shortest text that reads back as the same number: "0.1", "1e-8", "1000000".
std::string number_text(double value);

/// What a plain (unquoted) scalar means in YAML 1.2's core schema.
enum class PlainType { null, boolean, number, text };
PlainType plain_type(const std::string& scalar);

/// "a, b, c"
std::string join(const std::vector<std::string>& words);

}  // namespace ddprun
