// The names of an enum's values, written once for both directions.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "ddprun/base/error.h"

namespace ddprun {

template <class Enum, std::size_t n>
using EnumNames = std::array<std::pair<Enum, const char*>, n>;

template <class Enum, std::size_t n>
const char* name_of(const EnumNames<Enum, n>& names, Enum value) {
  for (const auto& [each, name] : names) {
    if (each == value) return name;
  }
  return "?";
}

/// Throws Error if no value has that name. `what`: "status of a check".
template <class Enum, std::size_t n>
Enum value_named(const EnumNames<Enum, n>& names, std::string_view text, const std::string& what) {
  std::string known;
  for (const auto& [each, name] : names) {
    if (text == name) return each;
    known += (known.empty() ? "" : ", ") + std::string(name);
  }
  throw Error({.what = "unknown " + what,
               .where = {},
               .got = std::string(text),
               .expected = known,
               .hint = "it was written by another version of ddprun"});
}

}  // namespace ddprun
