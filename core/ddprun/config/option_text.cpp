// How options and their values are put in words.
#include "ddprun/config/option_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "ddprun/base/ranges.h"
#include "ddprun/config/options_io.h"
#include "ddprun/config/plain_scalar.h"

namespace ddprun {

std::string type_name(const OptionTarget& target) {
  constexpr std::array<const char*, std::variant_size_v<OptionTarget>> kNames = {
      "true or false", "integer", "integer",         "number",           "number",
      "text",          "text",    "list of numbers", "list of integers", "list of texts"};
  return kNames[target.index()];
}

std::string allowed_text(const Limits& limits) {
  if (!limits.one_of.empty()) return list_text(limits.one_of);
  if (limits.min && limits.max) return number_text(*limits.min) + " to " + number_text(*limits.max);
  if (limits.min) return ">= " + number_text(*limits.min);
  if (limits.max) return "<= " + number_text(*limits.max);
  return {};
}

std::string options_text(const std::function<void(Options&)>& declare) {
  return list_text(mapped(list_options(declare), [](const OptionInfo& option) {
    return option.key + (option.allowed.empty() ? "" : " (" + option.allowed + ")");
  }));
}

std::string allowed_text(ChoiceTarget choice, const std::function<void(Options&)>& declare) {
  return fmt::format("{}, or a mapping with {}", fmt::join(choice.names(), ", "),
                     options_text(declare));
}

}  // namespace ddprun
