// Names of rows from their files and sweeps.
#include "runner/report/row_names.h"

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

/// "bucketed(bucket_mb=5)" with a space before the bracket: as a cell of its own it reads better.
std::string as_cell(std::string value) {
  const std::size_t bracket = value.find('(');
  if (bracket != std::string::npos && bracket > 0) value.insert(bracket, " ");
  return value;
}

}  // namespace

RowNames row_names(const std::vector<Row>& rows) {
  std::set<std::string> files;
  for (const Row& row : rows) files.insert(row.name);
  const std::string key = files.size() == 1 ? common_key(rows) : "";
  RowNames out{key.empty() ? "experiment" : key, {}};
  for (const Row& row : rows) {
    if (!key.empty()) {
      out.names.push_back(as_cell(row.label.substr(key.size() + 1)));
    } else if (row.label.empty()) {
      out.names.push_back(row.name);
    } else {
      out.names.push_back(files.size() == 1 ? row.label : row.name + ": " + row.label);
    }
  }
  return out;
}

}  // namespace ddprun
