// Terminal properties from the stream and the environment; display width of UTF-8.
#include "runner/report/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "ddprun/base/text.h"

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
  return std::ranges::any_of(ranges,
                             [c](const CodePointRange& r) { return c >= r.first && c <= r.last; });
}

/// Malformed bytes count as characters of their own.
int width_of(const Utf8Character& character) {
  const char32_t code = character.code.value_or(U'?');
  return in(kZeroWidth, code) ? 0 : in(kDoubleWidth, code) ? 2 : 1;
}

}  // namespace

Terminal terminal_of(std::FILE* stream) {
  Terminal terminal;
  const int fd = fileno(stream);
  // The terminal of a rank of mpirun is one of its own, and may end in a file.
  if (isatty(fd) != 1 || std::getenv("OMPI_COMM_WORLD_RANK") != nullptr) return terminal;
  const char* term = std::getenv("TERM");
  terminal.interactive = term == nullptr || std::strcmp(term, "dumb") != 0;
  const char* no_color = std::getenv("NO_COLOR");
  terminal.colour = terminal.interactive && (no_color == nullptr || *no_color == '\0');
  winsize size = {};
  terminal.width = ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  return terminal;
}

Terminal table_terminal(std::optional<int> columns) {
  constexpr int kPipeColumns = 100;
  Terminal terminal = terminal_of(stdout);
  if (terminal.width == 0) terminal.width = kPipeColumns;
  terminal.width = columns.value_or(terminal.width);
  return terminal;
}

int display_width(std::string_view text) {
  int width = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Character character = utf8_character(text, at);
    width += width_of(character);
    at += character.bytes.size();
  }
  return width;
}

std::string cut_to_width(const std::string& text, int width) {
  if (display_width(text) <= width) return text;
  std::size_t at = 0;
  for (int left = width - 1; at < text.size();) {
    const Utf8Character character = utf8_character(text, at);
    left -= width_of(character);
    if (left < 0) break;
    at += character.bytes.size();
  }
  return text.substr(0, at) + "…";
}

std::string cut_middle(const std::string& text, int width) {
  if (display_width(text) <= width) return text;
  const std::string head = cut_to_width(text, (width + 1) / 2);
  const int left = width - display_width(head);
  std::size_t at = 0;
  while (display_width(std::string_view(text).substr(at)) > left) {
    at += utf8_character(text, at).bytes.size();
  }
  return head + text.substr(at);
}

std::string wrapped(const std::string& text, int width) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!out.empty()) out += '\n';
    int column = -1;  // before the first word
    for (std::size_t at = 0, end = 0; end != line.size(); at = end + 1) {
      end = std::min(line.find(' ', at), line.size());
      if (line.compare(end, 2, " %") == 0) end = std::min(line.find(' ', end + 1), line.size());
      const std::string word = line.substr(at, end - at);
      const int taken = display_width(word);
      const bool fits = column + 1 + taken <= width;
      if (column >= 0) out += fits ? ' ' : '\n';
      column = fits ? column + 1 + taken : taken;
      out += word;
    }
  }
  return out;
}

std::string coloured(const std::string& text, Colour colour, bool enabled) {
  if (!enabled || colour == Colour::none) return text;
  static constexpr std::array kCodes = {"", "31", "32", "33", "2", "1"};
  return std::string("\033[") + kCodes[static_cast<std::size_t>(colour)] + "m" + text + "\033[0m";
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace ddprun
