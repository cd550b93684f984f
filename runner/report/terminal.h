// What the terminal can do, and how wide text is on it.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

struct Terminal {
  /// A person watches: the stream is a terminal that understands cursor movement.
  bool interactive = false;
  bool colour = false;  ///< interactive, and NO_COLOR (no-color.org) is not set
  int width = 0;        ///< columns; 0: unlimited (a file or a pipe)
};

Terminal terminal_of(std::FILE* stream);

/// stdout, where a table takes as many `columns`; by default the terminal's, and 100 in a pipe.
Terminal table_terminal(std::optional<int> columns);

/// Columns that UTF-8 text takes: combining marks none, East Asian wide characters and emoji two.
int display_width(std::string_view text);

/// The longest beginning that fits `width` columns, the last an ellipsis if something was cut.
std::string cut_to_width(const std::string& text, int width);
/// Beginning and end, an ellipsis between them.
std::string cut_middle(const std::string& text, int width);

/// `text` with line breaks in place of spaces, so that it takes `width` columns where its words do.
std::string wrapped(const std::string& text, int width);

enum class Colour { none, red, green, yellow, dim, bold };
std::string coloured(const std::string& text, Colour colour, bool enabled);

std::string first_line(const std::string& text);

}  // namespace ddprun
