// Declaration of quantities, and what a kind says unless it says otherwise.
#include "ddprun/result/experiment_kind.h"

#include <fmt/format.h>

#include "ddprun/result/finding.h"

namespace ddprun {

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
