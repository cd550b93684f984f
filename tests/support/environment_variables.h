// What a case may leave in the environment of its process.
#pragma once

#include <unistd.h>

#include <set>
#include <string>

namespace ddprun::test {

/// Each as "NAME=value".
inline std::set<std::string> environment() {
  std::set<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) variables.insert(*entry);
  return variables;
}

inline std::string name_of_variable(const std::string& variable) {
  return variable.substr(0, variable.find('='));
}

}  // namespace ddprun::test
