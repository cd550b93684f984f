// Cells of the comparison table, made from the declarations of the rows' quantities.
#include "runner/report/report_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "ddprun/base/choice.h"
#include "ddprun/base/ranges.h"
#include "ddprun/result/run_load.h"
#include "runner/report/report_lines.h"
#include "runner/report/table_lines.h"

namespace ddprun {

namespace {

constexpr const char* kNoValue = "–";
/// A column without a value is the first to go.
constexpr int kDropFirst = 1000;

/// Decimals that show three digits or more of the largest value, and of one below 10 what stands
/// behind its point; one number for a column, so that points align, but of what would read as zero.
int common_decimals(const std::vector<RowFigure>& figures) {
  double largest = 0, least = 10;
  for (const RowFigure& figure : figures) {
    const double value = figure.value.value_or(0);
    largest = std::max(largest, value);
    if (value > 0) least = std::min(least, value);
  }
  if (largest >= 1000) return least < 10 ? 2 : 0;
  return largest >= 10 ? 1 : 2;
}

/// A column under way: a figure for each line.
class Column {
 public:
  Column(const TableLines& table, const ExperimentKind& kind, const Quantity& quantity)
      : quantity_(quantity), lines_(table.lines()) {
    for (const TableLine& line : lines_) figures_.push_back(table.figure(line, kind, quantity));
    const bool counts = quantity.of_steps() && quantity.over_steps == OverSteps::count;
    decimals_ = counts ? 0 : common_decimals(figures_);
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      spread_width_ = std::max(spread_width_, spread_of(i).size());
    }
  }

  bool empty() const {
    return std::ranges::none_of(figures_,
                                [](const RowFigure& figure) { return figure.value.has_value(); });
  }

  bool has(std::size_t line) const { return figures_[line].value.has_value(); }

  TextTable::Column head() const {
    const int order = quantity_.drop_order;
    return {quantity_.title, true, empty() && order > 0 ? kDropFirst + order : order};
  }

  std::string cell(std::size_t line) const {
    const RowFigure& figure = figures_[line];
    if (!figure.value) return kNoValue;
    std::string text = number(*figure.value);
    if (quantity_.of_steps() && quantity_.over_steps == OverSteps::ends) {
      text = number(figure.first) + " → " + text;
    }
    if (const std::string spread = spread_of(line); !spread.empty()) {
      text += fmt::format(" ± {:>{}}", spread, spread_width_);
    }
    return figure.words.empty() ? text : text + ", " + figure.words;
  }

 private:
  std::string number(double value) const {
    return quantity_.text ? quantity_.text(value)
                          : text_as(fmt::format("{{:.{}f}}", decimals_))(value);
  }
  /// Between runs; of a single one between its steps; empty: there is but one value.
  std::string spread_of(std::size_t line) const {
    const RowFigure& figure = figures_[line];
    if (!quantity_.spread || !figure.value) return {};
    const Summary& over =
        figure.runs.count > 1 ? figure.runs : (*lines_[line].runs.front())[quantity_].steps;
    return over.count > 1 ? number(over.std) : std::string();
  }

  const Quantity& quantity_;
  const std::vector<TableLine>& lines_;
  std::vector<RowFigure> figures_;
  int decimals_ = 0;
  std::size_t spread_width_ = 0;
};

TextTable::Cell proof_cell(const Run& run) {
  const Proof proof = summarize_proof(run);
  switch (proof.status) {
    case CheckStatus::unchecked:
      break;
    case CheckStatus::passed:
      return {"✓ proved", Colour::green};
    case CheckStatus::declared:
      return {"✓ as declared", Colour::green};
    case CheckStatus::control:
      return {"control", Colour::yellow};
    case CheckStatus::failed:
      for (const Check& check : proof.checks) {
        if (check.status == CheckStatus::failed) return {"✗ " + check.name, Colour::red};
      }
  }
  return {"✗ not checked", Colour::red};
}

/// The proof of all runs of a line: of one that failed, if one did.
TextTable::Cell proof_cell(const TableLine& line) {
  TextTable::Cell cell = proof_cell(line.runs.front()->run());
  for (const RunStatistics* run : line.runs) {
    if (const auto other = proof_cell(run->run()); other.colour == Colour::red) cell = other;
  }
  if (line.runs.size() < line.count) {
    cell.text += fmt::format(", {} of {} runs", line.runs.size(), line.count);
    cell.colour = Colour::red;
  }
  return cell;
}

void add_facts(const ExperimentKind& kind, const TableLines& lines, TextTable& table) {
  using Facts = std::vector<std::pair<std::string, std::string>>;
  std::vector<Facts> facts;  // of each line
  std::vector<std::string> titles;
  for (const TableLine& line : lines.lines()) {
    const Row& row = lines.rows()[line.first];
    facts.push_back(!line.runs.empty() && row.kind == &kind ? kind.facts(row) : Facts());
    for (const auto& [title, text] : facts.back()) {
      if (!contains(titles, title)) titles.push_back(title);
    }
  }
  for (std::size_t c = 0; c < titles.size(); ++c) {
    table.columns.push_back({titles[c], false, kDropFirst / 2 - static_cast<int>(c)});
    for (std::size_t i = 0; i < table.lines.size(); ++i) {
      if (lines.lines()[i].runs.empty()) continue;
      const auto own = std::find_if(facts[i].begin(), facts[i].end(),
                                    [&](const auto& fact) { return fact.first == titles[c]; });
      table.lines[i].cells.push_back({own == facts[i].end() ? kNoValue : own->second});
    }
  }
}

/// Adds the columns of one kind; rows of another one have no value in them.
void add_columns(const ExperimentKind& kind, const TableLines& lines, TextTable& table) {
  for (const Quantity& quantity : kind.quantities()) {
    if (quantity.title.empty()) continue;
    const Column column(lines, kind, quantity);
    if (column.empty()) continue;
    table.columns.push_back(column.head());
    for (std::size_t i = 0; i < table.lines.size(); ++i) {
      std::vector<TextTable::Cell>& cells = table.lines[i].cells;
      if (lines.lines()[i].runs.empty()) {
        if (!column.has(i)) continue;  // the note says why
        cells.resize(table.columns.size() - 1);
      }
      cells.push_back({column.cell(i)});
    }
  }
}

/// Adds what else the machine did and how fast it was: of a line's runs, the busiest and slowest.
void add_load(const TableLines& lines, TextTable& table) {
  struct Load {
    std::optional<double> taken, throttled, gflops;
  };
  std::vector<Load> loads;  // of each line
  const auto raise = [](std::optional<double>& to, double value) {
    to = std::max(to.value_or(value), value);
  };
  for (const TableLine& line : lines.lines()) {
    Load& all = loads.emplace_back();
    for (const RunStatistics* run : line.runs) {
      const RunLoad load = load_of(run->run());
      if (load.others) raise(all.taken, *load.others + load.stolen.value_or(0));
      if (load.throttled) raise(all.throttled, *load.throttled);
      for (const auto& each : {load.before_gflops, load.after_gflops}) {
        if (each) all.gflops = std::min(all.gflops.value_or(*each), *each);
      }
    }
  }
  const auto add = [&](const char* title, std::optional<double> Load::*figure, double factor,
                       const char* format) {
    table.columns.push_back({title, true, kDropFirst - 1});
    for (std::size_t i = 0; i < table.lines.size(); ++i) {
      if (lines.lines()[i].runs.empty()) continue;
      const auto& value = loads[i].*figure;
      table.lines[i].cells.push_back({value ? text_as(format, factor)(*value) : kNoValue});
    }
  };
  const auto any = [&](const auto& counts) { return std::ranges::any_of(loads, counts); };
  if (any([](const Load& each) { return each.taken || each.gflops; })) {
    add("others", &Load::taken, 100, "{:.0f} %");
    add("machine GFLOP/s", &Load::gflops, 1, "{:.0f}");
  }
  if (any([](const Load& each) { return each.throttled > RunLoad::kThrottled; })) {
    add("throttled", &Load::throttled, 100, "{:.0f} %");
  }
}

/// Why no run of the line was measured.
TextTable::Cell why_not(const std::vector<Row>& rows, const TableLine& line) {
  const Row& row = rows[line.first];
  const std::string reason = first_line(row.reason);
  return {name_of(row.status) + (reason.empty() ? "" : ": " + reason), Colour::red};
}

/// The table as a width allows it: columns of other titles go first.
TextTable table_for(const TableLines& lines, int width, const std::vector<std::string>& titles) {
  TextTable table = report_table(lines);
  for (std::size_t c = 1; !titles.empty() && c + 1 < table.columns.size(); ++c) {  // but the proof
    TextTable::Column& column = table.columns[c];
    if (!contains(titles, column.title)) column.drop_order += 2 * kDropFirst;
  }
  return with_names_for(std::move(table), width);
}

}  // namespace

TextTable report_table(const TableLines& lines) {
  const std::vector<Row>& rows = lines.rows();
  TextTable table;
  table.columns.push_back({lines.title(), false, 0});
  for (const TableLine& line : lines.lines()) {
    table.lines.push_back({{{line.name + (rows[line.first].emulated ? " (emulated)" : "")}}});
  }
  for (const ExperimentKind* kind : kinds_of(rows)) {
    add_facts(*kind, lines, table);
    add_columns(*kind, lines, table);
  }
  add_load(lines, table);
  table.columns.push_back({"proof", false, 0});
  for (std::size_t i = 0; i < table.lines.size(); ++i) {
    const TableLine& line = lines.lines()[i];
    if (line.runs.empty()) {
      table.lines[i].note = why_not(rows, line);
    } else {
      table.lines[i].cells.push_back(proof_cell(line));
    }
  }
  return table;
}

TextTable with_names_for(TextTable table, int width) {
  for (const auto shorter : {values_alone, without_shared}) {
    if (width == 0 || table.fitting(width).width() <= width) break;
    RowNames names{table.columns[0].title, {}};
    for (const TextTable::Line& line : table.lines) names.names.push_back(line.cells[0].text);
    names = shorter(names);
    table.columns[0].title = names.title;
    for (std::size_t i = 0; i < table.lines.size(); ++i) table.lines[i].cells[0] = {names.names[i]};
  }
  return table;
}

std::string terminal_report(const TableLines& table, const Terminal& terminal,
                            const std::vector<std::string>& titles) {
  std::vector<std::string> dropped;
  std::string out =
      table_for(table, terminal.width, titles).render(terminal.width, terminal.colour, &dropped);
  out += "\n";
  // In a pipe a sentence is a line, which programs can look for.
  const auto say = [&](const std::string& text, Colour colour) {
    const bool wrap = terminal.interactive && terminal.width > 0;
    out += coloured(wrap ? wrapped(text, terminal.width) : text, colour, terminal.colour) + "\n";
  };
  for (const ReportLine& line : report_lines(table)) {
    say(line.text, line.bad ? Colour::red : Colour::none);
  }
  if (!dropped.empty()) say(too_few_columns(terminal.width, dropped), Colour::dim);
  return out;
}

}  // namespace ddprun
