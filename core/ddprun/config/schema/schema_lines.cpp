// JSON is written out, and tried for its length.
#include "ddprun/config/schema/options_schema.h"

#include <cstddef>

namespace ddprun {

namespace {

constexpr std::size_t kColumns = 120;

/// `begin`: what stands on the line before `value`, the spaces among them.
std::string lines_behind(const std::string& begin, const Schema& value, std::size_t indent) {
  const std::string line = begin + value.dump();
  if (!value.is_structured() || line.size() < kColumns) return line;
  std::string inside;
  for (const auto& [key, element] : value.items()) {
    std::string next(indent + 1, ' ');
    if (value.is_object()) next += Schema(key).dump() + ": ";
    inside += (inside.empty() ? "" : ",\n") + lines_behind(next, element, indent + 1);
  }
  const char* const brackets = value.is_object() ? "{}" : "[]";
  return begin + brackets[0] + "\n" + inside + "\n" + std::string(indent, ' ') + brackets[1];
}

}  // namespace

std::string lines_of(const Schema& schema) { return lines_behind("", schema, 0) + "\n"; }

}  // namespace ddprun
