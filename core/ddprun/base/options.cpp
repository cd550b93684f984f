// Declaring an option: the names of an enum are its limits.
#include "ddprun/base/options.h"

#include <utility>

namespace ddprun {

Options::~Options() = default;

bool Options::option(const std::string& key, OptionTarget target, const std::string& help,
                     Limits limits) {
  if (const auto* choice = std::get_if<ChoiceTarget>(&target)) {
    limits.one_of.assign(choice->names().begin(), choice->names().end());
  }
  return visit({key, help, std::move(limits)}, target);
}

}  // namespace ddprun
