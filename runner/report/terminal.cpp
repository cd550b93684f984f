// Terminal properties from the stream and the environment; display width of UTF-8.
#include "runner/report/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace ddprun {

namespace {

struct CodePointRange {
  std::uint32_t first, last;
};

// Blocks, not single characters: what a label in a YAML file may plausibly hold.
constexpr std::array<CodePointRange, 4> kZeroWidth = {
    {{0x0300, 0x036F}, {0x200B, 0x200F}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}}};
constexpr std::array<CodePointRange, 8> kDoubleWidth = {{{0x1100, 0x115F},
                                                         {0x2E80, 0xA4CF},
                                                         {0xAC00, 0xD7A3},
                                                         {0xF900, 0xFAFF},
                                                         {0xFE30, 0xFE6F},
                                                         {0xFF00, 0xFF60},
                                                         {0x1F300, 0x1FAFF},
                                                         {0x20000, 0x3FFFD}}};

template <std::size_t n>
bool in(const std::array<CodePointRange, n>& ranges, std::uint32_t c) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [c](const CodePointRange& r) { return c >= r.first && c <= r.last; });
}

/// The bytes of the character at `at`; malformed bytes count as characters of their own.
std::size_t character_length(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const std::size_t want = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  std::size_t length = 1;
  while (length < want && at + length < text.size() &&
         (static_cast<unsigned char>(text[at + length]) & 0xC0) == 0x80) {
    ++length;
  }
  return length;
}

int character_width(std::string_view character) {
  const auto lead = static_cast<unsigned char>(character[0]);
  std::uint32_t c = character.size() == 1   ? lead
                    : character.size() == 2 ? lead & 0x1Fu
                    : character.size() == 3 ? lead & 0x0Fu
                                            : lead & 0x07u;
  for (std::size_t i = 1; i < character.size(); ++i) {
    c = (c << 6) | (static_cast<unsigned char>(character[i]) & 0x3Fu);
  }
  return in(kZeroWidth, c) ? 0 : in(kDoubleWidth, c) ? 2 : 1;
}

}  // namespace

Terminal terminal_of(std::FILE* stream) {
  Terminal terminal;
  const int fd = fileno(stream);
  const char* term = std::getenv("TERM");
  terminal.interactive = isatty(fd) == 1 && (term == nullptr || std::strcmp(term, "dumb") != 0);
  if (!terminal.interactive) return terminal;
  const char* no_color = std::getenv("NO_COLOR");
  terminal.colour = no_color == nullptr || *no_color == '\0';
  winsize size = {};
  terminal.width = ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  return terminal;
}

int display_width(std::string_view text) {
  int width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_length(text, at);
    width += character_width(text.substr(at, length));
    at += length;
  }
  return width;
}

std::string cut_to_width(const std::string& text, int width) {
  if (display_width(text) <= width) return text;
  std::string out;
  int used = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = character_length(text, at);
    used += character_width(std::string_view(text).substr(at, length));
    if (used > width - 1) break;
    out += text.substr(at, length);
    at += length;
  }
  return out + "…";
}

std::string coloured(const std::string& text, Colour colour, bool enabled) {
  if (!enabled || colour == Colour::none) return text;
  const char* code = "";
  switch (colour) {
    case Colour::none:
      break;
    case Colour::red:
      code = "31";
      break;
    case Colour::green:
      code = "32";
      break;
    case Colour::yellow:
      code = "33";
      break;
    case Colour::dim:
      code = "2";
      break;
    case Colour::bold:
      code = "1";
      break;
  }
  return std::string("\033[") + code + "m" + text + "\033[0m";
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace ddprun
