// Sorts parameters into trained, frozen and tied.
#include "ddprun/optim/parameter_roles.h"

#include <cstddef>
#include <unordered_map>
#include <unordered_set>

#include "ddprun/base/error.h"
#include "ddprun/optim/parameter_check.h"

namespace ddprun {

ParameterRoles::ParameterRoles(const std::vector<NamedTensor>& parameters) {
  check_list(parameters);
  std::unordered_map<const at::TensorImpl*, int> numbers;
  std::unordered_set<std::string> with_trained;  // units
  for (const NamedTensor& parameter : parameters) {
    const bool frozen_one = !parameter.tensor.requires_grad();
    std::vector<NamedTensor>& list = frozen_one ? frozen : trained;
    const auto [entry, is_new] =
        numbers.emplace(parameter.tensor.unsafeGetTensorImpl(), static_cast<int>(list.size()));
    if (is_new) {
      list.push_back(parameter);
      if (!frozen_one) with_trained.insert(parameter.unit);
    } else {
      NamedTensor& first = list[entry->second];
      first.read_in_products |= !first.read_in_float32 || !parameter.read_in_float32;
      first.read_in_float32 |= parameter.read_in_float32;
      first.used_elsewhere |= first.unit != parameter.unit;
    }
    names.push_back(parameter.name);
    places.push_back({!frozen_one, entry->second});
  }
  if (trained.empty()) {
    throw ConfigError({.what = "all parameters are frozen, so nothing would be trained",
                       .where = "the model's parameters",
                       .got = std::to_string(frozen.size()) + " that require no gradient",
                       .expected = "one at least that requires it",
                       .hint = "requires_grad_(true), or evaluate without DataParallel"});
  }
  int next = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string& unit = parameters[i].unit;
    if (i > 0 && unit == parameters[i - 1].unit) continue;
    units.push_back(with_trained.contains(unit) ? next++ : -1);
    unit_names.push_back(unit);
  }
}

}  // namespace ddprun
