// How numbers, and texts of any origin, are written for people, read and cut.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace ddprun {

/// 1234567 -> "1,234,567".
std::string with_thousands(std::int64_t value);

/// "1 rank", "2,000 ranks"
std::string counted(std::int64_t count, std::string_view noun);
/// "the only rank", "all 2,000 ranks"
std::string all_counted(std::int64_t count, std::string_view noun);

/// A tensor's shape, or its strides: "[256, 32]".
std::string shape_text(std::span<const std::int64_t> sizes);

/// The text as a terminal and a JSON file can take it: control characters and bytes that are no
/// UTF-8 become \x1b, \u009b. Newlines and tabs stay.
std::string printable(std::string_view text);

/// The same on one line: newlines and tabs become \n and \t.
std::string printable_line(std::string_view text);

/// The number that all of the text is; nothing if it is none, or none that fits.
template <class Number, class... Base>
std::optional<Number> number_from(std::string_view text, Base... base) {
  Number number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number, base...);
  return read.ec == std::errc() && read.ptr == end ? std::optional(number) : std::nullopt;
}

/// A value's bytes as they lie in memory: of a number the lowest first, as this processor has it.
template <class Value>
std::string bytes_in_memory(const Value& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

/// The parts of a text between marks; of an empty text one, which is empty.
std::vector<std::string> split_at(const std::string& text, char mark);

/// The text as a cell of comma-separated values, in quotes where it must be (RFC 4180).
std::string csv_field(const std::string& text);

/// The text as one word of a shell.
std::string shell_word(const std::string& text);

/// The UTF-8 character that begins at text[at]: its bytes and its code. Where no character begins,
/// one byte without a code.
struct Utf8Character {
  std::string_view bytes;
  std::optional<char32_t> code;
};
Utf8Character utf8_character(std::string_view text, std::size_t at);

/// Text of at most `limit` bytes: of a longer one the middle is left out, and it says how much. No
/// UTF-8 character is cut. `limit` is at least 64.
std::string shortened(const std::string& text, std::size_t limit);

}  // namespace ddprun
