// Formats the cells of a table.
#include "ddprun/result/quantity.h"

#include <fmt/format.h>

#include <cmath>

namespace ddprun {

namespace {

constexpr char kMostDecimals = '4';

bool reads_as_zero(const std::string& text) {
  return text.find_first_of("123456789") == std::string::npos;
}

}  // namespace

std::function<std::string(double value)> text_as(std::string format, double factor) {
  return [format = std::move(format), factor](double value) {
    const bool some = std::isfinite(value) && value != 0;
    std::string with = format, text = fmt::format(fmt::runtime(with), value * factor);
    const std::size_t decimals = with.find('.') + 1;
    while (some && reads_as_zero(text) && with[decimals] < kMostDecimals) {
      ++with[decimals];
      text = fmt::format(fmt::runtime(with), value * factor);
    }
    return text;
  };
}

std::string percent_text(double share) {
  const std::string text = text_as("{:.0f}", 100)(share);
  if (share >= 1 || text != "100") return text;
  return fmt::format("{:.1f}", std::floor(share * 1000) / 10);
}

}  // namespace ddprun
