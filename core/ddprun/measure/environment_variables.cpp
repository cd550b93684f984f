// Looks through the environment once.
#include "ddprun/measure/environment.h"

#include <unistd.h>

#include <algorithm>

namespace ddprun {

const EnvironmentVariable* declared_variable(std::string_view name) {
  const auto fits = [name](const EnvironmentVariable& declared) {
    if (!declared.name.ends_with('*')) return name == declared.name;
    return name.starts_with(declared.name.substr(0, declared.name.size() - 1));
  };
  const auto found = std::ranges::find_if(kEnvironmentVariables, fits);
  return found == kEnvironmentVariables.end() ? nullptr : found;
}

const std::vector<std::pair<std::string, std::string>>& set_variables() {
  static const auto the_variables = [] {
    std::vector<std::pair<std::string, std::string>> out;
    for (char** each = environ; *each != nullptr; ++each) {
      const std::string_view text = *each;
      const std::string_view name = text.substr(0, text.find('='));
      if (name.size() == text.size() || declared_variable(name) == nullptr) continue;
      out.emplace_back(name, text.substr(name.size() + 1));
    }
    std::ranges::sort(out);
    return out;
  }();
  return the_variables;
}

}  // namespace ddprun
