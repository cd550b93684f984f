// `ddprun verify`: each step of a data-parallel run against one process that starts from this run's
// parameters of that step.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/config/experiment.h"
#include "ddprun/config/registry.h"
#include "ddprun/config/run_context.h"

namespace ddprun {

/// The differences of a parameter's elements.
struct Spread {
  double largest = 0, mean = 0;
};

/// The largest of some differences, and whose it is. A NaN is largest.
struct Largest {
  double value = 0;
  std::string parameter = {};
  double mean = 0;  ///< of the means that were added
  int added = 0;
  void add(Spread other, const std::string& name);
};

/// How far a step of the run is from that of one process: over all elements of all parameters, or
/// of one in all steps.
struct Differences {
  /// Of |g(run) - g(one process)|, relative to the parameter's largest |g(one process)|.
  Largest gradient = {};
  /// Of |p(run) - p(one process)| / (|p before| + |p(one process)|), after an update by the same
  /// gradients, those of the run, from the same moments: what the strategy did to the update.
  Largest update = {};
  /// Of |p(run) - p(one process)| after an update by the gradients of each. SGD only: AdamW turns
  /// the rounding of a gradient near zero into a whole step.
  std::optional<Largest> parameter = {};
};

struct VerifiedStep {
  std::int64_t step = 0;
  std::vector<double> losses = {};  ///< of each rank
  double loss = 0;                  ///< of the run: their mean
  double loss_one_process = 0;
  /// Nothing: gradients overflowed and the step was skipped, or it was a replay that scaled its
  /// gradients in place.
  std::optional<Differences> differences = {};
};

struct Verification {
  std::vector<VerifiedStep> steps = {};
  /// Of each parameter over all steps, in the order of the forward pass.
  std::vector<Differences> parameters = {};
  /// What differs between ranks, or on one: "step 3: parameters_equal: ...". The first of each
  /// kind.
  std::vector<std::string> faults = {};
};

nlohmann::json to_json(const Verification& found);

/// Trains all steps as run_rank() does. After each, rank 0 does the same step in one process,
/// without any strategy, by PyTorch's own operators and as many threads, while the others wait: so
/// differences do not add up over steps. It holds besides its own share that process's parameters,
/// gradients, moments and activations of the whole batch, and a copy of parameters and gradients.
/// Rank 0 returns what it found, the others nothing. Of `context` it takes the rank and the run's
/// id. Throws ddprun::Error.
Verification verify_rank(const Experiment& experiment, const PluginRegistry& registry,
                         const RunContext& context);

}  // namespace ddprun
