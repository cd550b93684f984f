// Names of rows from their files and sweeps.
#include "runner/report/row_names.h"

#include <map>
#include <set>

namespace ddprun {

namespace {

/// Whether a label has more than one "key=value": a comma outside of all brackets.
bool has_several_keys(const std::string& label) {
  int depth = 0;
  for (const char c : label) {
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') --depth;
    if (c == ',' && depth == 0) return true;
  }
  return false;
}

/// "strategy" if every label is "strategy=..." and nothing else; empty otherwise.
std::string common_key(const std::vector<Row>& rows) {
  std::string key;
  for (const Row& row : rows) {
    const std::size_t equals = row.label.find('=');
    if (equals == std::string::npos || has_several_keys(row.label)) return {};
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

}  // namespace ddprun
