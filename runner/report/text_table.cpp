// Layout of tables.
#include "runner/report/text_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/algorithm/string/replace.hpp>
#include <numeric>
#include <set>
#include <utility>

#include "ddprun/base/ranges.h"

namespace ddprun {

namespace {

constexpr int kGap = 2;
constexpr int kLeastFirstColumn = 12;

std::string padded(const TextTable::Cell& cell, int width, bool right, bool colour) {
  const std::string text = cut_to_width(cell.text, width);
  const std::string space(static_cast<std::size_t>(width - display_width(text)), ' ');
  const std::string shown = coloured(text, cell.colour, colour);
  return right ? space + shown : shown + space;
}

std::vector<int> natural_widths(const TextTable& table) {
  std::vector<int> widths;
  for (std::size_t c = 0; c < table.columns.size(); ++c) {
    int width = display_width(table.columns[c].title);
    for (const TextTable::Line& line : table.lines) {
      if (c < line.cells.size()) width = std::max(width, display_width(line.cells[c].text));
    }
    widths.push_back(width);
  }
  return widths;
}

int total_width(const std::vector<int>& widths) {
  return std::accumulate(widths.begin(), widths.end(), -kGap,
                         [](int total, int width) { return total + width + kGap; });
}

/// Cuts the cells of the first column: at the end, or in the middle where those that differ there
/// would be cut alike.
void cut_first_column(TextTable& table, int width) {
  std::set<std::string> names, at_end;
  for (const TextTable::Line& line : table.lines) {
    names.insert(line.cells.front().text);
    at_end.insert(cut_to_width(line.cells.front().text, width));
  }
  const auto cut = at_end.size() == names.size() ? cut_to_width : cut_middle;
  for (TextTable::Line& line : table.lines) {
    line.cells.front().text = cut(line.cells.front().text, width);
  }
}

/// These columns of a table. A note begins behind the last cell that is left and has text.
TextTable with_columns(const TextTable& table, const std::vector<std::size_t>& shown) {
  TextTable out;
  for (const std::size_t c : shown) out.columns.push_back(table.columns[c]);
  for (const TextTable::Line& line : table.lines) {
    out.lines.push_back({{}, line.note});
    for (const std::size_t c : shown) {
      if (c < line.cells.size()) out.lines.back().cells.push_back(line.cells[c]);
    }
    std::vector<TextTable::Cell>& cells = out.lines.back().cells;
    while (!line.note.text.empty() && cells.size() > 1 && cells.back().text.empty()) {
      cells.pop_back();
    }
  }
  return out;
}

std::string trimmed(std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  return line;
}

/// What LaTeX would read otherwise, or has no letter for.
std::string in_latex(const std::string& text) {
  static const std::vector<std::pair<std::string, std::string>> kWords = {
      {"\\", "\\textbackslash{}"},
      {"&", "\\&"},
      {"%", "\\%"},
      {"#", "\\#"},
      {"_", "\\_"},
      {"$", "\\$"},
      {"{", "\\{"},
      {"}", "\\}"},
      {"~", "\\textasciitilde{}"},
      {"^", "\\textasciicircum{}"},
      {"<", "\\textless{}"},
      {">", "\\textgreater{}"},
      {"|", "\\textbar{}"},
      {"[", "{[}"},  // behind the end of a row, these two are its options
      {"*", "{*}"},
      {"–", "--"},
      {"±", "$\\pm$"},
      {"µ", "$\\mu$"},
      {"→", "$\\to$"},
      {"✓ ", ""},
      {"✗ ", "not proved: "},
      {"\n", " "}};
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto word = std::ranges::find_if(kWords, [&](const auto& each) {
      return text.compare(at, each.first.size(), each.first) == 0;
    });
    out += word == kWords.end() ? std::string(1, text[at]) : word->second;
    at += word == kWords.end() ? 1 : word->first.size();
  }
  return out;
}

}  // namespace

std::string too_few_columns(int width, const std::vector<std::string>& dropped) {
  return fmt::format("{} columns are too few for: {} (--columns 0 shows all)", width,
                     fmt::join(dropped, ", "));
}

void TextTable::add(const std::vector<std::string>& cells) {
  lines.push_back({mapped(cells, [](const std::string& text) { return Cell{text}; })});
}

TextTable TextTable::chosen(const std::vector<std::string>& titles) const {
  std::vector<std::size_t> shown = {0};
  for (const std::string& title : titles) {
    for (std::size_t c = 1; c < columns.size(); ++c) {
      if (columns[c].title == title) shown.push_back(c);
    }
  }
  return with_columns(*this, shown);
}

TextTable TextTable::fitting(int width, std::vector<std::string>* dropped) const {
  std::vector<int> widths = natural_widths(*this);
  std::vector<std::size_t> shown(columns.size());
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  std::vector<bool> left_out(columns.size());
  while (width > 0 && total_width(widths) > width) {
    const auto least = std::ranges::max_element(
        shown, {}, [this](std::size_t c) { return columns[c].drop_order; });
    if (columns[*least].drop_order == 0) break;
    left_out[*least] = true;
    widths.erase(widths.begin() + (least - shown.begin()));
    shown.erase(least);
  }
  for (std::size_t c = 0; dropped != nullptr && c < columns.size(); ++c) {
    if (left_out[c]) dropped->push_back(columns[c].title);
  }
  return with_columns(*this, shown);
}

int TextTable::width() const { return total_width(natural_widths(*this)); }

std::string TextTable::render(int width, bool colour, std::vector<std::string>* dropped) const {
  TextTable table = fitting(width, dropped);
  std::vector<int> widths = natural_widths(table);
  if (const int excess = total_width(widths) - width; width > 0 && excess > 0) {
    widths[0] = std::max(std::min(widths[0], kLeastFirstColumn), widths[0] - excess);
    cut_first_column(table, widths[0]);
  }
  const std::string gap(kGap, ' ');
  const auto joined = [&](const std::vector<Cell>& cells, bool in_colour) {
    std::string text;
    for (std::size_t c = 0; c < cells.size(); ++c) {
      text += (c == 0 ? "" : gap) +
              padded(cells[c], widths[c], table.columns[c].right_aligned, in_colour);
    }
    return text;
  };
  const auto titles =
      mapped(table.columns, [](const Column& column) { return Cell{column.title}; });
  const std::string head = trimmed(joined(titles, false));
  std::string out = coloured(head, Colour::bold, colour) + "\n";
  for (const Line& line : table.lines) {
    std::string text = joined(line.cells, colour);
    if (!line.note.text.empty()) {
      const int taken = display_width(joined(line.cells, false));
      const int left = width > 0 ? std::max(20, width - taken - kGap) : 1 << 20;
      text += gap + coloured(cut_to_width(line.note.text, left), line.note.colour, colour);
    }
    out += trimmed(text) + "\n";
  }
  return out;
}

std::string in_markdown(std::string text) {
  for (const char* mark : {"|", "*", "<", "`"}) {
    boost::replace_all(text, mark, std::string("\\") + mark);
  }
  boost::replace_all(text, "\\< ", "< ");  // which begins no tag
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::string TextTable::markdown() const {
  std::string out = "|", rule = "|";
  for (const Column& column : columns) {
    out += " " + in_markdown(column.title) + " |";
    rule += column.right_aligned ? " ---: |" : " :--- |";
  }
  out += "\n" + rule + "\n";
  for (const Line& line : lines) {
    out += "|";
    std::vector<Cell> cells = line.cells;
    cells.push_back(line.note);
    cells.resize(columns.size());
    for (const Cell& cell : cells) out += " " + in_markdown(cell.text) + " |";
    out += "\n";
  }
  return out;
}

std::string TextTable::latex() const {
  std::string spec, head;
  for (const Column& column : columns) {
    spec += column.right_aligned ? 'r' : 'l';
    head += (head.empty() ? "" : " & ") + in_latex(column.title);
  }
  std::string out = "\\begin{tabular}{" + spec + "}\n\\toprule\n" + head + " \\\\\n\\midrule\n";
  for (const Line& line : lines) {
    std::string text;
    for (std::size_t c = 0; c < line.cells.size(); ++c) {
      text += (c == 0 ? "" : " & ") + in_latex(line.cells[c].text);
    }
    if (!line.note.text.empty()) {
      text += fmt::format(" & \\multicolumn{{{}}}{{l}}{{{}}}", columns.size() - line.cells.size(),
                          in_latex(line.note.text));
    }
    out += text + " \\\\\n";
  }
  return out + "\\bottomrule\n\\end{tabular}\n";
}

}  // namespace ddprun
