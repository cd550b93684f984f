// Names of rows from their files and sweeps.
#include "runner/report/row_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
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
    out.names.push_back(name.substr(0, begin) + fmt::format("{}", fmt::join(values, ", ")));
    titles.insert(begin > 0 || name == out.names.back() ? names.title
                                                        : fmt::format("{}", fmt::join(keys, ", ")));
  }
  out.title = titles.size() == 1 ? *titles.begin() : names.title;
  return out;
}

}  // namespace ddprun
