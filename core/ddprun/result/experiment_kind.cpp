// Declaration of quantities, how cells are formatted, and what a kind says unless it says
// otherwise.
#include "ddprun/result/experiment_kind.h"

#include <fmt/format.h>

#include <cmath>

#include "ddprun/result/finding.h"

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

const Quantity& ExperimentKind::declare(std::string key, std::string unit, std::string meaning,
                                        Quantity rest) {
  rest.key = std::move(key);
  rest.unit = std::move(unit);
  rest.meaning = std::move(meaning);
  return declare(std::move(rest));
}

const Quantity& ExperimentKind::declare(Quantity quantity) {
  quantity.index = quantities_.size();
  return quantities_.emplace_back(std::move(quantity));
}

std::vector<std::pair<std::string, std::string>> ExperimentKind::facts(const Run&) const {
  return {};
}

std::vector<Finding> ExperimentKind::findings(const std::vector<const RunStatistics*>&) const {
  return {};
}

std::string schema_text(const ExperimentKind& kind) {
  std::string text = kind.name();
  for (const Quantity& q : kind.quantities()) {
    if (q.measured()) text += fmt::format(" {} {}", q.key, q.unit);
  }
  return text;
}

}  // namespace ddprun
