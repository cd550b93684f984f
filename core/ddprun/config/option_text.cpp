// How options and their values are put in words.
#include "ddprun/config/option_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

namespace ddprun {

namespace {

// [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?
bool is_number(std::string_view text) {
  const auto take_digits = [&text] {
    const auto end = std::min(text.find_first_not_of("0123456789"), text.size());
    text.remove_prefix(end);
    return end;
  };
  const auto take_one_of = [&text](std::string_view characters) {
    const bool there = !text.empty() && characters.find(text.front()) != std::string_view::npos;
    if (there) text.remove_prefix(1);
    return there;
  };
  take_one_of("-+");
  std::size_t digits = take_digits();
  if (take_one_of(".")) digits += take_digits();
  if (digits == 0) return false;
  if (take_one_of("eE")) {
    take_one_of("-+");
    if (take_digits() == 0) return false;
  }
  return text.empty();
}

bool is_not_finite(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  constexpr std::array<std::string_view, 6> kWords = {".inf", ".Inf", ".INF",
                                                      ".nan", ".NaN", ".NAN"};
  return std::find(kWords.begin(), kWords.end(), text) != kWords.end();
}

}  // namespace

std::string type_name(const OptionTarget& target) {
  constexpr std::array<const char*, std::variant_size_v<OptionTarget>> kNames = {
      "true or false",   "integer",          "number",       "text",
      "list of numbers", "list of integers", "list of texts"};
  return kNames[target.index()];
}

std::string allowed_text(const Limits& limits) {
  if (!limits.one_of.empty()) return join(limits.one_of);
  if (limits.min && limits.max) return number_text(*limits.min) + " to " + number_text(*limits.max);
  if (limits.min) return ">= " + number_text(*limits.min);
  if (limits.max) return "<= " + number_text(*limits.max);
  return {};
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

PlainType plain_type(const std::string& scalar) {
  const auto is_one_of = [&scalar](std::initializer_list<const char*> words) {
    return std::find(words.begin(), words.end(), scalar) != words.end();
  };
  if (is_one_of({"", "~", "null", "Null", "NULL"})) return PlainType::null;
  if (is_one_of({"true", "True", "TRUE", "false", "False", "FALSE"})) return PlainType::boolean;
  if (is_number(scalar) || is_not_finite(scalar)) return PlainType::number;
  return PlainType::text;
}

std::string join(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

}  // namespace ddprun
