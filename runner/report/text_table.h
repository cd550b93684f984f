// A table of text, for terminals of any width, for Markdown and for LaTeX.
#pragma once

#include <string>
#include <vector>

#include "runner/report/terminal.h"

namespace ddprun {

struct TextTable {
  struct Column {
    std::string title;
    bool right_aligned = true;
    int drop_order = 0;  ///< on a narrow terminal the highest goes first; 0 stays
  };
  struct Cell {
    std::string text;
    Colour colour = Colour::none;
  };
  struct Line {
    std::vector<Cell> cells;  ///< one a column; or fewer, if `note` says the rest
    Cell note = {};           ///< text over all columns after the cells
  };

  std::vector<Column> columns;
  std::vector<Line> lines;

  /// A line of cells without colour.
  void add(const std::vector<std::string>& cells);

  /// The first column, and those of these titles, as far as they are there, in this order.
  TextTable chosen(const std::vector<std::string>& titles) const;
  /// Columns are dropped until a line fits `width` (0: no limit); `dropped` gets their titles.
  TextTable fitting(int width, std::vector<std::string>* dropped = nullptr) const;

  /// Of a line of text.
  int width() const;

  /// Lines of text, each ending in a newline. Columns are dropped, then the first is cut, until a
  /// line fits `width` (0: no limit). `dropped` receives the titles of the columns left out.
  std::string render(int width, bool colour, std::vector<std::string>* dropped = nullptr) const;

  std::string markdown() const;

  /// As a LaTeX tabular with the rules of the package booktabs.
  std::string latex() const;
};

/// With what Markdown would read otherwise escaped, as in "layers.*", "head.*".
std::string in_markdown(std::string text);

/// What a table of this width says of the columns that were left out.
std::string too_few_columns(int width, const std::vector<std::string>& dropped);

}  // namespace ddprun
