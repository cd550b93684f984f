// What an option's value must be, where CLI11's own checks let too much pass or say it badly.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <string>
#include <type_traits>

#include "ddprun/base/text.h"

namespace ddprun {

/// Of a script whose variable is not set: it would be as if the option were not there.
inline const CLI::Validator kNotEmpty(
    [](std::string& text) { return std::string(text.empty() ? "an empty value" : ""); }, "");

/// To CLI11 NaN lies in every range, and what is too large is infinite, which bounds nothing.
inline const CLI::Validator kFinite(
    [](std::string& text) {
      return std::isfinite(std::strtod(text.c_str(), nullptr)) ? "" : text + " is no finite number";
    },
    "");

/// CLI11's own has words with all digits of the largest number.
inline const CLI::Validator kNotNegative(
    [](std::string& text) {
      return std::strtod(text.c_str(), nullptr) < 0 ? text + " is below 0" : "";
    },
    "");

/// CLI11 takes what lies outside of 64 bits for the number at their end, and 010 for 8.
template <class Integer>
CLI::Validator whole_number() {
  const auto transform = [](std::string& text) {
    if (text.empty()) return std::string();  // kNotEmpty says so
    const auto number = number_from<Integer>(text);
    if (!number)
      return text + " is no whole number of 64 bits" +
             (std::is_signed_v<Integer> ? "" : ", from 0");
    text = std::to_string(*number);
    return std::string();
  };
  return {transform, ""};
}

/// CLI11's own shows six decimals of both ends.
inline CLI::Validator between(double least, double most) {
  const auto check = [least, most](std::string& text) {
    const double value = std::strtod(text.c_str(), nullptr);
    return value >= least && value <= most
               ? ""
               : fmt::format("{} is not in {} to {}", text, least, most);
  };
  return {check, ""};
}

}  // namespace ddprun
