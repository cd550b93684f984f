// Thousands separators, escapes and ellipses.
#include "ddprun/base/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <boost/algorithm/string/replace.hpp>
#include <boost/algorithm/string/split.hpp>
#include <boost/locale/utf.hpp>

namespace ddprun {

namespace {

bool is_control(char32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

/// Whether the byte continues a UTF-8 character that began before it.
bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

void append_escaped(std::string& out, const Utf8Character& character) {
  const auto& [bytes, code] = character;
  if (code == U'\n' || code == U'\t') {
    out += code == U'\n' ? "\\n" : "\\t";
  } else if (code && *code >= 0x80) {
    out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(*code));
  } else {
    for (const char byte : bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
  }
}

std::string escaped(std::string_view text, std::string_view kept) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character character = utf8_character(text, at);
    at += character.bytes.size();
    if (character.code && (!is_control(*character.code) ||
                           kept.find(character.bytes.front()) != std::string_view::npos)) {
      out += character.bytes;
    } else {
      append_escaped(out, character);
    }
  }
  return out;
}

}  // namespace

std::string with_thousands(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::size_t first = value < 0 ? 1 : 0;  // the first digit
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

Utf8Character utf8_character(std::string_view text, std::size_t at) {
  namespace utf = boost::locale::utf;
  const char* const begin = text.data() + at;
  const char* end = begin;
  const utf::code_point code = utf::utf_traits<char>::decode(end, text.data() + text.size());
  if (!utf::is_valid_codepoint(code)) return {text.substr(at, 1), {}};
  return {text.substr(at, static_cast<std::size_t>(end - begin)), code};
}

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", with_thousands(count), noun, count == 1 ? "" : "s");
}

std::string all_counted(std::int64_t count, std::string_view noun) {
  return count == 1 ? fmt::format("the only {}", noun) : "all " + counted(count, noun);
}

std::string shape_text(std::span<const std::int64_t> sizes) {
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

std::string printable(std::string_view text) { return escaped(text, "\n\t"); }

std::string printable_line(std::string_view text) { return escaped(text, ""); }

std::string shortened(const std::string& text, std::size_t limit) {
  if (text.size() <= limit) return text;
  constexpr std::size_t kNote = 40;  // bytes of the longest note
  std::size_t head = (limit - kNote) * 2 / 3;
  std::size_t tail = text.size() - (limit - kNote - head);
  while (continues(text[head])) --head;
  while (tail < text.size() && continues(text[tail])) ++tail;
  const auto left_out = static_cast<std::int64_t>(tail - head);
  return fmt::format("{} [{} bytes more] {}", text.substr(0, head), with_thousands(left_out),
                     text.substr(tail));
}

std::vector<std::string> split_at(const std::string& text, char mark) {
  std::vector<std::string> parts;
  boost::split(parts, text, [mark](char each) { return each == mark; });
  return parts;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  return '"' + boost::replace_all_copy(text, "\"", "\"\"") + '"';
}

std::string shell_word(const std::string& text) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./=:,+@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  return "'" + boost::replace_all_copy(text, "'", "'\\''") + "'";
}

}  // namespace ddprun
