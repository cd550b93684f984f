// Puts an option's type and limits in words, for reading and listing: in options_list.cpp.
#pragma once

#include <string>

#include "ddprun/base/options.h"

namespace ddprun {

/// "integer", "list of numbers", ...
std::string type_name(const OptionTarget& target);

/// ">= 0.001", "1 to 64", "constant, cosine"; empty: any.
std::string allowed_text(const Limits& limits);

/// The options of a mapping, each with what it takes: "groups (>= 1), every".
std::string options_text(const std::function<void(Options&)>& declare);

/// What Options::choice_or_section() takes: "none, all, or a mapping with groups (>= 1), every".
std::string allowed_text(ChoiceTarget choice, const std::function<void(Options&)>& declare);

}  // namespace ddprun
