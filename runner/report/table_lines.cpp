// Names of rows from their files and sweeps; lines from rows.
#include "runner/report/table_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ddprun/base/ranges.h"

namespace ddprun {

namespace {

/// How many more brackets are open behind it.
int opens(char c) {
  return static_cast<int>(c == '(' || c == '[' || c == '{') -
         static_cast<int>(c == ')' || c == ']' || c == '}');
}

/// Each "key=value" of a label: commas outside of all brackets part them.
std::vector<std::string> parts_of(const std::string& label) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : label) {
    depth += opens(c);
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else if (c != ' ' || !parts.back().empty()) {
      parts.back() += c;
    }
  }
  return parts;
}

/// A part of a name: "NAME", " (", what is in the brackets, ")".
struct Part {
  std::string head, open;
  std::vector<std::string> entries;
  std::string tail;
};
Part split_part(const std::string& text) {
  const std::size_t open = std::min(text.find_first_of("({"), text.size());
  std::size_t close = open;
  for (int depth = 0; close < text.size() && (depth += opens(text[close])) > 0;) ++close;
  if (open == text.size()) return {text, "", {}, ""};
  const std::size_t head = open > 0 && text[open - 1] == ' ' ? open - 1 : open;
  return {text.substr(0, head), text.substr(head, open + 1 - head),
          parts_of(text.substr(open + 1, close - open - 1)), text.substr(close)};
}

std::size_t distinct(const std::vector<std::string>& names) {
  return std::set<std::string>(names.begin(), names.end()).size();
}

/// "strategy" if every label is "strategy=..." and nothing else; empty otherwise.
std::string common_key(const std::vector<Row>& rows) {
  std::string key;
  for (const Row& row : rows) {
    const std::size_t equals = row.label.find('=');
    if (equals == std::string::npos || parts_of(row.label).size() > 1) return {};
    const std::string own = row.label.substr(0, equals);
    if (key.empty()) key = own;
    if (own != key) return {};
  }
  return key;
}

}  // namespace

std::string as_cell(std::string value) {
  const std::size_t bracket = value.find('(');
  if (bracket != std::string::npos && bracket > 0) value.insert(bracket, " ");
  return value;
}

RowNames row_names(const std::vector<Row>& rows) {
  std::map<std::string, std::set<std::string>> files;  // by their names
  for (const Row& row : rows) files[row.name].insert(row.file);
  const bool one_file = files.size() == 1 && files.begin()->second.size() == 1;
  const std::string key = one_file ? common_key(rows) : "";
  RowNames out{key.empty() ? "experiment" : key, {}};
  for (const Row& row : rows) {
    const bool shared = files[row.name].size() > 1;
    const std::string name = shared ? row.name + " (" + row.file + ")" : row.name;
    if (!key.empty()) {
      out.names.push_back(as_cell(row.label.substr(key.size() + 1)));
    } else if (row.label.empty()) {
      out.names.push_back(name);
    } else {
      out.names.push_back(one_file ? row.label : name + ": " + row.label);
    }
  }
  return out;
}

RowNames values_alone(const RowNames& names) {
  RowNames out;
  std::set<std::string> titles;
  for (const std::string& name : names.names) {
    const std::size_t colon = name.find(": ");  // behind a file's name
    const std::size_t begin = colon < name.find('=') ? colon + 2 : 0;
    std::vector<std::string> keys, values;
    for (const std::string& part : parts_of(name.substr(begin))) {
      const std::size_t end = std::min(part.find_first_of("=([{"), part.size());
      const bool keyed = end < part.size() && part[end] == '=';
      values.push_back(keyed ? as_cell(part.substr(end + 1)) : part);
      keys.push_back(part.substr(0, end));
      keys.back().erase(0, keys.back().rfind('.') + 1);
    }
    out.names.push_back(name.substr(0, begin) + list_text(values));
    titles.insert(begin > 0 || name == out.names.back() ? names.title : list_text(keys));
  }
  out.title = titles.size() == 1 ? *titles.begin() : names.title;
  return out;
}

RowNames without_shared(const RowNames& names) {
  const auto parts = mapped(
      names.names, [](const std::string& name) { return mapped(parts_of(name), split_part); });
  // Of each place, which is a part's number and head: what is in its brackets.
  std::map<std::pair<std::size_t, std::string>, std::set<std::vector<std::string>>> met;
  for (const std::vector<Part>& all : parts) {
    for (std::size_t i = 0; i < all.size(); ++i) met[{i, all[i].head}].insert(all[i].entries);
  }
  RowNames out{names.title, {}};
  for (const std::vector<Part>& all : parts) {
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto& others = met[{i, all[i].head}];
      const auto shared = [&others](const std::string& entry) {
        return others.size() > 1 &&
               std::ranges::all_of(others, [&](const auto& each) { return contains(each, entry); });
      };
      std::vector<std::string> own = all[i].entries;
      if (std::erase_if(own, shared) > 0) own.emplace_back("…");
      texts.push_back(all[i].head + all[i].open + list_text(own) + all[i].tail);
    }
    out.names.push_back(list_text(texts));
  }
  // Those that differ by the order of their options alone would be one.
  return distinct(out.names) == distinct(names.names) ? out : names;
}

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
