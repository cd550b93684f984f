// What becomes of each parameter that a model has: it is trained, frozen, or one that came before.
#pragma once

#include <string>
#include <vector>

#include "ddprun/optim/named_tensor.h"

namespace ddprun {

/// The parameters of a model by what becomes of them.
struct ParameterRoles {
  /// `parameters` are in registration order. One that requires no gradient is frozen. A tensor that
  /// comes again, under another name, is a tied weight, and the same parameter. Throws ConfigError
  /// as check_list() does, and if all are frozen.
  explicit ParameterRoles(const std::vector<NamedTensor>& parameters);

  /// Where one of the model's parameters is found.
  struct Place {
    bool trained = true;
    int number = 0;  ///< in `trained` or in `frozen`
  };

  std::vector<NamedTensor> trained, frozen;  ///< in registration order, each once
  std::vector<std::string> names;            ///< of the given parameters
  std::vector<Place> places;                 ///< likewise
  /// Of the model's units, in order: the number among those that have a parameter to train, or -1.
  std::vector<int> units;
  std::vector<std::string> unit_names;  ///< likewise
};

}  // namespace ddprun
