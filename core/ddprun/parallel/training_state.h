// The state of training between two steps, in tensors by name: views, by which a checkpoint is
// written and read.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "ddprun/checkpoint/shared_tensors.h"
#include "ddprun/parallel/data_parallel.h"

namespace ddprun {

/// The parameters by the names that DataParallel was given, frozen ones too, a tied one once; whole
/// in all ranks together, in the dtype in which the optimizer updates them (frozen: in the
/// model's). Where ranks differ, those of rank 0. Throws Error if one does not lie in memory in the
/// order of its elements.
SharedTensors shared_parameters(DataParallel& data_parallel);

/// The optimizer's moments as "PARAMETER.MOMENT" (Optimizer::moment_names()). Where ranks differ,
/// those of rank 0.
SharedTensors shared_moments(DataParallel& data_parallel);

/// What this rank alone has: "strategy.NAME" and "precision.NAME", as the plugins declare it
/// (Plugin::declare_state()), where parameters lie if the strategy has floating-point tensors, and
/// where ranks differ its "parameter.NAME" and "moment.NAME". It may be nothing. Numbers are int64
/// scalars.
std::vector<NamedTensor> own_state(DataParallel& data_parallel);
/// Throws Error if a checkpoint would lose a tensor that the strategy gave to carries().
void check_carried_is_declared(DataParallel& data_parallel);

/// Gives the value of a name, or an undefined tensor if there is none.
using Lookup = std::function<at::Tensor(const std::string& name)>;
/// Whose state a checkpoint has: that of the same plugins, or of others that carried something
/// else.
struct WhoseState {
  bool strategy = true, precision = true;
};
/// Reads what own_state() gave into its places; what is of another plugin stays as it is. Throws
/// Error if a value is not there or of another shape, or if the strategy's are of parameters that
/// lay elsewhere.
void read_own_state(DataParallel& data_parallel, WhoseState whose, const Lookup& lookup);

/// What names of own_state() begin with.
inline constexpr const char* kStrategyState = "strategy.";
inline constexpr const char* kPrecisionState = "precision.";

}  // namespace ddprun
