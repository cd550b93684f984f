// `ddprun verify`: the same training by many ranks and by one process, compared parameter by
// parameter.
#pragma once

#include <string>
#include <vector>

#include "ddprun/config/experiment.h"
#include "ddprun/config/registry.h"
#include "ddprun/train/run_context.h"

namespace ddprun {

/// How far one parameter of the data-parallel run is from that of one process on the same global
/// batch. All differences are absolute: largest and mean over the parameter's elements.
struct Difference {
  std::string name = {};
  /// After the first step's backward.
  double gradient_max = 0, gradient_mean = 0;
  /// After all steps.
  double parameter_max = 0, parameter_mean = 0;
};

/// Trains all steps as run_rank() does, and then again in rank 0's process alone without any
/// strategy, on as many threads. Rank 0 returns the differences in the order of the forward pass,
/// the others nothing. Of `context` it takes the rank and the run's id. Throws ddprun::Error.
std::vector<Difference> verify_rank(const Experiment& experiment, const PluginRegistry& registry,
                                    const RunContext& context);

}  // namespace ddprun
