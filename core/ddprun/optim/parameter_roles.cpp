// Sorts parameters into trained, frozen and tied.
#include "ddprun/optim/parameter_roles.h"

#include <algorithm>
#include <cstddef>

#include "ddprun/base/error.h"
#include "ddprun/optim/parameter_check.h"

namespace ddprun {

namespace {

/// The parameter of `list` that is this tensor; -1: none.
int find(const std::vector<NamedTensor>& list, const at::Tensor& tensor) {
  const auto found = std::find_if(list.begin(), list.end(), [&](const NamedTensor& each) {
    return each.tensor.is_same(tensor);
  });
  return found == list.end() ? -1 : static_cast<int>(found - list.begin());
}

}  // namespace

ParameterRoles::ParameterRoles(const std::vector<NamedTensor>& parameters) {
  check_list(parameters);
  for (const NamedTensor& parameter : parameters) {
    const bool frozen_one = !parameter.tensor.requires_grad();
    std::vector<NamedTensor>& list = frozen_one ? frozen : trained;
    int number = find(list, parameter.tensor);
    if (number < 0) {
      number = static_cast<int>(list.size());
      list.push_back(parameter);
    } else {
      NamedTensor& first = list[number];
      first.read_in_products |= !first.read_in_float32 || !parameter.read_in_float32;
      first.read_in_float32 |= parameter.read_in_float32;
      first.used_elsewhere |= first.unit != parameter.unit;
    }
    names.push_back(parameter.name);
    places.push_back({!frozen_one, number});
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
    const bool has_trained = std::any_of(
        trained.begin(), trained.end(), [&](const NamedTensor& each) { return each.unit == unit; });
    units.push_back(has_trained ? next++ : -1);
    unit_names.push_back(unit);
  }
}

}  // namespace ddprun
