// Lines of a table, laid out by the values of their keys.
#include "runner/report/pivot.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "ddprun/base/choice.h"
#include "ddprun/base/ranges.h"
#include "runner/report/csv_files.h"
#include "runner/report/report_table.h"
#include "runner/report/table_lines.h"

namespace ddprun {

namespace {

using Values = std::vector<std::string>;

std::string last_part(const std::string& key) { return key.substr(key.rfind('.') + 1); }

Values last_parts(const Values& keys) { return mapped(keys, last_part); }

Values values_of(const Values& keys, const SweptValues& point) {
  return mapped(keys, [&](const std::string& key) {
    const auto found = std::ranges::find(point, key, &SweptValues::value_type::first);
    return found == point.end() ? "" : as_cell(found->second);
  });
}

void add_new(std::vector<Values>& known, Values values) {
  if (!contains(known, values)) known.push_back(std::move(values));
}

class Layout {
 public:
  Layout(const PivotConfig& pivot, const std::vector<SweptValues>& points, const TableLines& lines)
      : pivot_(pivot) {
    for (const TableLine& line : lines.lines()) {
      places_.push_back({values_of(pivot.rows, points.at(line.first)),
                         values_of(pivot.columns, points.at(line.first))});
      add_new(rows_, places_.back().row);
      add_new(columns_, places_.back().column);
    }
  }

  /// `cell`: of a line and a title.
  TextTable table(const std::function<TextTable::Cell(std::size_t line, const std::string& title)>&
                      cell) const {
    TextTable out;
    for (const std::string& key : last_parts(pivot_.rows)) out.columns.push_back({key, false});
    for_cells([&](const Values& column, const std::string& title) {
      out.columns.push_back({heading(column, title)});
    });
    for (const Values& row : rows_) {
      TextTable::Line line;
      for (const std::string& value : row) line.cells.push_back({value});
      for_cells([&](const Values& column, const std::string& title) {
        const std::size_t found = line_at(row, column);
        line.cells.push_back(found < places_.size() ? cell(found, title) : TextTable::Cell{"–"});
      });
      out.lines.push_back(std::move(line));
    }
    return out;
  }

 private:
  struct Place {
    Values row, column;
  };

  template <class Visit>
  void for_cells(const Visit& visit) const {
    for (const Values& column : columns_) {
      for (const std::string& title : pivot_.value) visit(column, title);
    }
  }

  std::string heading(const Values& column, const std::string& title) const {
    const std::string values = list_text(column);
    return pivot_.value.size() == 1 ? values : values + ": " + title;
  }

  std::size_t line_at(const Values& row, const Values& column) const {
    const auto found = std::ranges::find_if(
        places_, [&](const Place& place) { return place.row == row && place.column == column; });
    return static_cast<std::size_t>(found - places_.begin());
  }

  const PivotConfig& pivot_;
  std::vector<Place> places_;  // of each line
  std::vector<Values> rows_, columns_;
};

/// Of the kinds of the rows the first that has one with this title, or key; null: none has.
const Quantity* quantity_named(const std::string& name, const std::vector<Row>& rows) {
  for (const ExperimentKind* kind : kinds_of(rows)) {
    for (const Quantity& quantity : kind->quantities()) {
      if (quantity.title == name || quantity.key == name) return &quantity;
    }
  }
  return nullptr;
}

}  // namespace

TextTable pivot_table(const PivotConfig& pivot, const std::vector<SweptValues>& points,
                      const TableLines& lines) {
  const TextTable all = report_table(lines);
  return Layout(pivot, points, lines)
      .table([&](std::size_t line, const std::string& title) -> TextTable::Cell {
        const auto column = std::ranges::find(all.columns, title, &TextTable::Column::title);
        const auto place = static_cast<std::size_t>(column - all.columns.begin());
        const std::vector<TextTable::Cell>& cells = all.lines[line].cells;
        if (place < cells.size() && !cells[place].text.empty()) return cells[place];
        if (lines.lines()[line].runs.empty()) {
          return {name_of(lines.rows()[lines.lines()[line].first].status), Colour::red};
        }
        return {"–"};  // no row has a value
      });
}

std::string pivot_csv(const PivotConfig& pivot, const std::vector<SweptValues>& points,
                      const TableLines& lines) {
  PivotConfig by_key = pivot;  // a title may have another unit
  for (std::string& value : by_key.value) {
    if (const Quantity* quantity = quantity_named(value, lines.rows())) value = quantity->key;
  }
  return csv_of(
      Layout(by_key, points, lines).table([&](std::size_t number, const std::string& key) {
        const TableLine& line = lines.lines()[number];
        const Quantity* quantity = quantity_named(key, lines.rows());
        const ExperimentKind* kind = lines.rows()[line.first].kind;
        if (quantity == nullptr || kind == nullptr) return TextTable::Cell{};
        const auto value = lines.figure(line, *kind, *quantity).value;
        return TextTable::Cell{value ? csv_number(*value) : ""};
      }));
}

std::string pivot_title(const PivotConfig& pivot) {
  return fmt::format("{} by {}", fmt::join(pivot.value, ", "),
                     fmt::join(last_parts(pivot.columns), ", "));
}

}  // namespace ddprun
