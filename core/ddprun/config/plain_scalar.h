// What a plain (unquoted) scalar of YAML means. Everything that reads one asks here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

/// As YAML 1.2's core schema has it: `True` is a boolean, `~` is null, 0x10 and 0o20 are numbers,
/// `yes` and 1_000 are text.
enum class PlainType { null, boolean, number, text };
PlainType plain_type(const std::string& scalar);

/// Nothing if `text` is not a boolean.
std::optional<bool> parse_bool(const std::string& text);

/// 010: an integer, decimal here and octal for YAML 1.1, of which no number is parsed.
bool reads_as_two_numbers(std::string_view scalar);

/// Nothing if `text` is not a number. An infinity if a double cannot hold it as a finite number.
std::optional<double> parse_number(std::string text);

/// Up to here doubles hold every integer: 2^53.
inline constexpr double kMostExact = 9007199254740992.0;

/// Nothing if `text` is not an integer of 64 bits. Scientific notation counts if the value is
/// integral ("1e6") and no larger than kMostExact; a decimal point without it does not.
std::optional<std::int64_t> parse_integer(std::string text);

/// The shortest text that reads back as the same number: "0.1", "1e-8", "1000000".
std::string number_text(double value);

}  // namespace ddprun
