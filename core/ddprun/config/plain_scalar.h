// What a plain (unquoted) scalar of YAML means, for everything that reads one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun {

/// By YAML 1.2's core schema, where `True` is a boolean, `~` is null and `yes` is text; but numbers
/// are decimal, and 0x10 is text.
enum class PlainType { null, boolean, number, text };
PlainType plain_type(const std::string& scalar);

/// Nothing if `text` is no boolean.
std::optional<bool> parse_bool(const std::string& text);

/// Nothing if `text` is no number; an infinity if it is none of the finite ones that a double can
/// hold.
std::optional<double> parse_number(std::string text);

/// Nothing if `text` is no integer. Scientific notation counts if the value is integral ("1e6"), a
/// decimal point alone does not.
std::optional<std::int64_t> parse_integer(std::string text);

/// The shortest text that reads back as the same number: "0.1", "1e-8", "1000000".
std::string number_text(double value);

}  // namespace ddprun
