// Names of rows from their files and sweeps.
#include "runner/report/row_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

namespace ddprun {

namespace {

/// Each "key=value" of a label: commas outside of all brackets part them.
std::vector<std::string> parts_of(const std::string& label) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : label) {
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else if (c != ' ' || !parts.back().empty()) {
      parts.back() += c;
    }
  }
  return parts;
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
  for (const std::string& name : names.names) {
    std::vector<std::string> keys, values;
    for (const std::string& part : parts_of(name)) {
      const std::size_t equals = part.find('=');
      if (equals == std::string::npos) return names;
      keys.push_back(part.substr(part.rfind('.', equals) + 1));
      keys.back().resize(keys.back().find('='));
      values.push_back(as_cell(part.substr(equals + 1)));
    }
    const std::string title = fmt::format("{}", fmt::join(keys, ", "));
    if (!out.names.empty() && title != out.title) return names;
    out.title = title;
    out.names.push_back(fmt::format("{}", fmt::join(values, ", ")));
  }
  return out;
}

}  // namespace ddprun
