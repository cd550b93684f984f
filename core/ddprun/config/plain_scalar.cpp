// Tells null, booleans, numbers and texts apart, reads them, and writes numbers.
#include "ddprun/config/plain_scalar.h"

#include <array>
#include <charconv>
#include <cmath>

#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"

namespace ddprun {

namespace {

constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";
constexpr std::string_view kDigits = kHexDigits.substr(0, 10);

/// 16 of 0x10, 8 of 0o20, 10 of all else.
int base_of(std::string_view text) {
  const int base = text.starts_with("0x") ? 16 : text.starts_with("0o") ? 8 : 10;
  const std::string_view digits = base == 16 ? kHexDigits : kDigits.substr(0, 8);
  const bool valid = text.size() > 2 && text.find_first_not_of(digits, 2) == std::string::npos;
  return valid ? base : 10;
}

// [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?
bool is_number(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  // from_chars() takes a second sign, and words.
  if (text.find_first_of("0123456789.") != 0) return false;
  double value = 0;
  const char* const end = text.data() + text.size();
  return std::from_chars(text.data(), end, value).ptr == end;
}

bool is_not_finite(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  constexpr std::array<std::string_view, 6> kWords = {".inf", ".Inf", ".INF",
                                                      ".nan", ".NaN", ".NAN"};
  return contains(kWords, text);
}

}  // namespace

PlainType plain_type(const std::string& scalar) {
  const auto is_one_of = [&scalar](std::initializer_list<const char*> words) {
    return contains(words, scalar);
  };
  if (is_one_of({"", "~", "null", "Null", "NULL"})) return PlainType::null;
  if (is_one_of({"true", "True", "TRUE", "false", "False", "FALSE"})) return PlainType::boolean;
  if (base_of(scalar) != 10 || is_number(scalar) || is_not_finite(scalar)) return PlainType::number;
  return PlainType::text;
}

std::optional<bool> parse_bool(const std::string& text) {
  if (plain_type(text) != PlainType::boolean) return std::nullopt;
  return text.front() == 't' || text.front() == 'T';
}

bool reads_as_two_numbers(std::string_view scalar) {
  if (scalar.starts_with('-') || scalar.starts_with('+')) scalar.remove_prefix(1);
  return scalar.size() > 1 && scalar.front() == '0' &&
         scalar.find_first_not_of(kDigits) == std::string::npos;
}

std::optional<double> parse_number(std::string text) {
  if (plain_type(text) != PlainType::number || reads_as_two_numbers(text)) return std::nullopt;
  if (base_of(text) != 10) {
    const auto integer = parse_integer(text);
    return integer ? static_cast<double>(*integer) : HUGE_VAL;
  }
  if (text.front() == '+') text.erase(0, 1);
  return number_from<double>(text).value_or(HUGE_VAL);
}

std::optional<std::int64_t> parse_integer(std::string text) {
  if (plain_type(text) != PlainType::number || reads_as_two_numbers(text)) return std::nullopt;
  const int base = base_of(text);
  text.erase(0, base != 10 ? 2 : text.front() == '+' ? 1 : 0);
  if (const auto value = number_from<std::int64_t>(text, base)) return value;
  if (base != 10 || text.find_first_of("eE") == std::string::npos) return std::nullopt;
  const double number = parse_number(text).value_or(HUGE_VAL);
  if (std::abs(number) > kMostExact || number != std::trunc(number)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

std::string number_text(double value) {
  if (value == std::trunc(value) && std::abs(value) < 1e15) {
    return std::to_string(static_cast<std::int64_t>(value));
  }
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  std::string text(buffer.data(), end);
  // to_chars pads exponents to two digits; people write 1e-8.
  const auto exponent = text.find("e-0");
  if (exponent != std::string::npos) text.erase(exponent + 2, 1);
  return text;
}

}  // namespace ddprun
