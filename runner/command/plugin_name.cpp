// Names in snake_case and in CamelCase.
#include "runner/command/plugin_name.h"

#include <fmt/format.h>

#include <algorithm>

#include "ddprun/base/error.h"
#include "ddprun/config/plain_scalar.h"

namespace ddprun {

namespace {

constexpr std::size_t kLongest = 64;

// As the C locale has them.
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
char lower(char c) { return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c; }
char upper(char c) { return is_lower(c) ? static_cast<char>(c - 'a' + 'A') : c; }

bool is_usable(const std::string& name) {
  const bool letters =
      std::ranges::all_of(name, [](char c) { return is_lower(c) || is_digit(c) || c == '_'; });
  return letters && !name.empty() && is_lower(name.front()) && name.size() <= kLongest &&
         plain_type(name) == PlainType::text && name != "latest";
}

/// "my_ring" for "MyRing", "my-ring" and "2 my ring".
std::string snake_case(const std::string& name) {
  std::string out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const bool word = is_upper(name[i]) || is_lower(name[i]) || (is_digit(name[i]) && !out.empty());
    const bool begins = !word || (is_upper(name[i]) && i > 0 && !is_upper(name[i - 1]));
    if (begins && !out.empty() && !out.ends_with('_')) out += '_';
    if (word) out += lower(name[i]);
  }
  while (out.ends_with('_')) out.pop_back();
  return out;
}

}  // namespace

void check_plugin_name(const std::string& name) {
  if (is_usable(name)) return;
  const std::string near = snake_case(name);
  throw ConfigError(
      {.what = "a new plugin cannot have this name",
       .where = "the command line",
       .got = name.size() > kLongest ? fmt::format("{} characters: {}", name.size(), name)
                                     : fmt::format("'{}'", name),
       .expected = fmt::format("at most {} of a-z, 0-9 and _, of which the first is a letter; not "
                               "null, true, false or latest, which mean something else in YAML",
                               kLongest),
       .hint = is_usable(near) ? "did you mean \"" + near + "\"?"
                               : "YAML, the files, and a class are called by it"});
}

std::string class_name(const std::string& name) {
  std::string out;
  bool begins = true;
  for (const char c : name) {
    if (c != '_') out += begins ? upper(c) : c;
    begins = c == '_';
  }
  return out;
}

}  // namespace ddprun
