// Cells of the comparison table, made from the declarations of the rows' quantities.
#include "runner/report/report_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>

#include "ddprun/result/run_statistics.h"
#include "runner/report/report_lines.h"
#include "runner/report/row_names.h"

namespace ddprun {

namespace {

constexpr const char* kNoValue = "–";
/// A column without a value is the first to go.
constexpr int kDropFirst = 1000;

/// The statistics of each row; null: it was not measured, or it is of another kind.
using Runs = std::vector<const RunStatistics*>;

/// Decimals that show three digits or more of the largest value; one number for a whole column, so
/// that points align.
int common_decimals(const std::vector<std::optional<Figure>>& figures) {
  double largest = 0;
  for (const auto& figure : figures) {
    if (figure) largest = std::max(largest, figure->value.value_or(0));
  }
  return largest >= 1000 ? 0 : largest >= 10 ? 1 : 2;
}

/// A column under way: a figure for each row that may show it.
class Column {
 public:
  Column(const Quantity& quantity, const Runs& runs) : quantity_(quantity), runs_(runs) {
    Runs measured = runs;
    std::erase(measured, nullptr);
    for (const RunStatistics* run : runs) {
      const bool shown = run != nullptr && (run->timed() || !quantity.timed);
      figures_.push_back(!shown              ? std::optional<Figure>()
                         : quantity.compares ? quantity.compares(*run, measured)
                                             : run->figure(quantity));
    }
    const bool counts = quantity.of_steps() && quantity.over_steps == OverSteps::count;
    decimals_ = counts ? 0 : common_decimals(figures_);
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (figures_[i]) spread_width_ = std::max(spread_width_, number(spread_of(i)).size());
    }
  }

  bool empty() const {
    return std::none_of(figures_.begin(), figures_.end(),
                        [](const auto& figure) { return figure && figure->value; });
  }

  TextTable::Column head() const {
    const int order = quantity_.drop_order;
    return {quantity_.title, true, empty() && order > 0 ? kDropFirst + order : order};
  }

  std::string cell(std::size_t row) const {
    if (!figures_[row] || !figures_[row]->value) return kNoValue;
    const auto& [value, words] = *figures_[row];
    std::string text = quantity_.text ? quantity_.text(*value) : number(*value);
    if (quantity_.of_steps() && quantity_.over_steps == OverSteps::ends) {
      const double first = (*runs_[row])[quantity_].first;
      text = (quantity_.text ? quantity_.text(first) : number(first)) + " → " + text;
    }
    if (quantity_.spread && (*runs_[row])[quantity_].steps.count > 1) {  // no spread of one
      text += fmt::format(" ± {:>{}}", number(spread_of(row)), spread_width_);
    }
    return words.empty() ? text : text + ", " + words;
  }

 private:
  std::string number(double value) const { return fmt::format("{:.{}f}", value, decimals_); }
  double spread_of(std::size_t row) const { return (*runs_[row])[quantity_].steps.std; }

  const Quantity& quantity_;
  const Runs& runs_;
  std::vector<std::optional<Figure>> figures_;
  int decimals_ = 0;
  std::size_t spread_width_ = 0;
};

TextTable::Cell proof_cell(const Row& row) {
  const Proof proof = summarize_proof(row);
  switch (proof.status) {
    case CheckStatus::unchecked:
      break;
    case CheckStatus::passed:
      return {"✓ proved", Colour::green};
    case CheckStatus::control:
      return {"control", Colour::yellow};
    case CheckStatus::failed:
      for (const Check& check : proof.checks) {
        if (check.status == CheckStatus::failed) return {"✗ " + check.name, Colour::red};
      }
  }
  return {"✗ not checked", Colour::red};
}

/// Adds what tells the rows of a kind apart.
void add_facts(const ExperimentKind& kind, const std::vector<Row>& rows, TextTable& table) {
  using Facts = std::vector<std::pair<std::string, std::string>>;
  std::vector<Facts> facts;  // of each row
  std::vector<std::string> titles;
  for (const Row& row : rows) {
    facts.push_back(row.measured() && row.kind == &kind ? kind.facts(row) : Facts());
    for (const auto& [title, text] : facts.back()) {
      if (std::find(titles.begin(), titles.end(), title) == titles.end()) titles.push_back(title);
    }
  }
  for (std::size_t c = 0; c < titles.size(); ++c) {
    table.columns.push_back({titles[c], false, kDropFirst / 2 - static_cast<int>(c)});
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (!rows[i].measured()) continue;
      const auto own = std::find_if(facts[i].begin(), facts[i].end(),
                                    [&](const auto& fact) { return fact.first == titles[c]; });
      table.lines[i].cells.push_back({own == facts[i].end() ? kNoValue : own->second});
    }
  }
}

/// The measured quantity that it is made from, if it is one of steps; else itself.
const Quantity& measured_of(const Quantity& quantity) {
  return quantity.of == nullptr ? quantity : *quantity.of;
}

/// Adds the columns of one kind; rows of another one have no value in them.
void add_columns(const ExperimentKind& kind, const std::vector<Row>& rows, TextTable& table) {
  std::deque<RunStatistics> statistics;  // not a vector: addresses stay
  Runs runs;
  for (const Row& row : rows) {
    const bool has = row.measured() && row.kind == &kind;
    runs.push_back(has ? &statistics.emplace_back(row) : nullptr);
  }
  for (const Quantity& quantity : kind.quantities()) {
    if (quantity.title.empty()) continue;
    const Column column(quantity, runs);
    // There is nothing to compare with, or no sample has it.
    if (column.empty() && (quantity.compares || measured_of(quantity).optional)) continue;
    table.columns.push_back(column.head());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].measured()) table.lines[i].cells.push_back({column.cell(i)});
    }
  }
}

}  // namespace

TextTable report_table(const std::vector<Row>& rows) {
  const RowNames names = row_names(rows);
  TextTable table;
  table.columns.push_back({names.title, false, 0});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    table.lines.push_back({{{names.names[i] + (rows[i].emulated ? " (emulated)" : "")}}});
  }
  for (const ExperimentKind* kind : kinds_of(rows)) {
    add_facts(*kind, rows, table);
    add_columns(*kind, rows, table);
  }
  table.columns.push_back({"proof", false, 0});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].measured()) {
      table.lines[i].cells.push_back(proof_cell(rows[i]));
    } else {
      const std::string reason = first_line(rows[i].reason);
      table.lines[i].note = {name_of(rows[i].status) + (reason.empty() ? "" : ": " + reason),
                             Colour::red};
    }
  }
  return table;
}

std::string terminal_report(const std::vector<Row>& rows, const Terminal& terminal) {
  std::vector<std::string> dropped;
  std::string out = report_table(rows).render(terminal.width, terminal.colour, &dropped);
  out += "\n";
  for (const ReportLine& line : report_lines(rows)) {
    out += coloured(line.text, line.bad ? Colour::red : Colour::none, terminal.colour) + "\n";
  }
  if (!dropped.empty()) {
    out += coloured(fmt::format("terminal too narrow for: {} (all are in summary.md)",
                                fmt::join(dropped, ", ")),
                    Colour::dim, terminal.colour) +
           "\n";
  }
  return out;
}

}  // namespace ddprun
