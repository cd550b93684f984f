// Thousands separators, escapes and ellipses.
#include "ddprun/base/text.h"

#include <fmt/format.h>

#include <boost/locale/utf.hpp>

namespace ddprun {

namespace {

bool is_control(char32_t code) { return code < 0x20 || (code >= 0x7f && code < 0xa0); }

/// Whether the byte continues a UTF-8 character that began before it.
bool continues(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

void append_escaped(std::string& out, std::string_view character, char32_t code, bool valid) {
  if (code == '\n' || code == '\t') {
    out += code == '\n' ? "\\n" : "\\t";
  } else if (valid && code >= 0x80) {
    out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(code));
  } else {
    for (const char byte : character) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    }
  }
}

std::string escaped(std::string_view text, std::string_view kept) {
  namespace utf = boost::locale::utf;
  std::string out;
  out.reserve(text.size());
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    const char* const begin = at;
    const utf::code_point code = utf::utf_traits<char>::decode(at, end);
    const bool valid = utf::is_valid_codepoint(code);
    if (!valid) at = begin + 1;
    const std::string_view character(begin, static_cast<std::size_t>(at - begin));
    if (valid && (!is_control(code) || kept.find(*begin) != std::string_view::npos)) {
      out += character;
    } else {
      append_escaped(out, character, code, valid);
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

}  // namespace ddprun
