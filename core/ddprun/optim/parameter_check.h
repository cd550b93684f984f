// What is refused of the parameters that a model gives.
#pragma once

#include <vector>

#include "ddprun/optim/named_tensor.h"

namespace ddprun {

/// Throws ConfigError if there is none, one is undefined, a name appears twice, or the parameters
/// of a unit do not follow each other.
void check_list(const std::vector<NamedTensor>& parameters);

/// Throws ConfigError that names the parameter if one is not a dense float32 leaf, is on another
/// device than the first, or shares memory with another.
void check_tensors(const std::vector<NamedTensor>& parameters);

/// Throws ConfigError that names the parameter if one requires no gradient.
void check_trained(const std::vector<NamedTensor>& parameters);

}  // namespace ddprun
