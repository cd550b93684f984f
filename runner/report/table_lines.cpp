// Lines from rows.
#include "runner/report/table_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "runner/report/row_names.h"

namespace ddprun {

using nlohmann::json;

TableLines::TableLines(const std::vector<Row>& rows) : rows_(rows) {
  const RowNames names = row_names(rows);
  title_ = names.title;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i > 0 && same_row(rows[i - 1], rows[i])) {
      ++lines_.back().count;
    } else {
      lines_.push_back({names.names[i], i});
    }
    auto& runs = runs_[rows[i].kind];
    if (!rows[i].measured()) continue;
    const RunStatistics& run = statistics_.emplace_back(rows[i], in_sentence(lines_.back()));
    lines_.back().runs.push_back(&run);
    runs.push_back(&run);
  }
}

std::string TableLines::in_sentence(const TableLine& line) const {
  const bool is_option = title_.find('.') != std::string::npos;
  return (is_option ? title_ + "=" : "") + line.name;
}

bool TableLines::repeated() const {
  return std::ranges::any_of(lines_, [](const TableLine& line) { return line.count > 1; });
}

RowFigure TableLines::figure(const TableLine& line, const ExperimentKind& kind,
                             const Quantity& quantity) const {
  const Row& row = rows_[line.first];
  if (row.kind != &kind) return {};
  if (line.runs.empty()) {
    const bool known = !quantity.of_work.empty() && row.status == RowStatus::out_of_memory;
    return known ? RowFigure{figure_of_work(row, quantity).value} : RowFigure{};
  }
  return row_figure(line.runs, quantity, runs_of(kind));
}

std::vector<std::string> run_names(const TableLines& table) {
  std::vector<std::string> names;
  for (const auto& [name, first, count, runs] : table.lines()) {
    for (std::size_t run = 1; run <= count; ++run) {
      names.push_back(count == 1 ? name : fmt::format("{}, run {} of {}", name, run, count));
    }
  }
  return names;
}

std::vector<Finding> findings_of(const TableLines& table) {
  std::vector<Finding> out;
  for (const ExperimentKind* kind : kinds_of(table.rows())) {
    for (Finding& finding : kind->findings(table.runs_of(*kind))) out.push_back(std::move(finding));
  }
  return out;
}

json table_json(const TableLines& table) {
  json out = json::array();
  for (const TableLine& line : table.lines()) {
    json figures = json::object(), std = json::object();
    const ExperimentKind* kind = table.rows()[line.first].kind;
    for (std::size_t q = 0; kind != nullptr && q < kind->quantities().size(); ++q) {
      const Quantity& quantity = kind->quantities()[q];
      const RowFigure figure = table.figure(line, *kind, quantity);
      if (!figure.value) continue;
      figures[quantity.key] = *figure.value;
      if (figure.runs.count > 1) std[quantity.key] = figure.runs.std;
    }
    out.push_back({{"name", line.name},
                   {"first_row", line.first + 1},
                   {"runs", line.count},
                   {"measured", line.runs.size()},
                   {"figures", std::move(figures)}});
    if (line.count > 1) out.back()["std"] = std::move(std);
  }
  return out;
}

}  // namespace ddprun
