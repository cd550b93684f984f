// JSON that any text can stand in, and an error's parts in it.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "ddprun/base/error.h"

namespace ddprun {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ErrorText, what, where, got, expected, hint)

/// A number that was written: JSON has no NaN, and writes null.
inline double number_or_nan(const nlohmann::json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

/// A number in JSON, which has no infinities and no NaN: "inf", "-inf", "nan".
nlohmann::json json_number(double value);

/// What the text says, all of it. Throws nlohmann::json::parse_error.
nlohmann::json parse_json(std::string_view text);

/// The value as text, on one line unless it is indented. What is no UTF-8 is replaced: paths may be
/// anything.
std::string json_text(const nlohmann::json& value, int indent = -1);

}  // namespace ddprun
