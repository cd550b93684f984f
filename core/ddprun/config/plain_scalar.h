// What a plain (unquoted) scalar of YAML means. Everything that reads one asks here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ddprun {

/// As YAML 1.2's core schema has it: `True` is a boolean, `~` is null and `yes` is text. But
/// numbers are decimal only: 0x10 is text.
enum class PlainType { null, boolean, number, text };
PlainType plain_type(const std::string& scalar);

/// Nothing if `text` is not a boolean.
std::optional<bool> parse_bool(const std::string& text);

/// Nothing if `text` is not a number. An infinity if a double cannot hold it as a finite number.
std::optional<double> parse_number(std::string text);

/// Nothing if `text` is not an integer. Scientific notation counts if the value is integral
/// ("1e6"); a decimal point without it does not.
std::optional<std::int64_t> parse_integer(std::string text);

/// The shortest text that reads back as the same number: "0.1", "1e-8", "1000000".
std::string number_text(double value);

}  // namespace ddprun
