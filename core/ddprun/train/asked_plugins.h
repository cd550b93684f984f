// What plugins are asked before they take part in training: whether they can, in which dtypes, and
// by which plan.
#pragma once

#include <vector>

#include "ddprun/comm/process_group.h"
#include "ddprun/optim/named_tensor.h"
#include "ddprun/optim/optimizer_config.h"
#include "ddprun/optim/parameter_roles.h"
#include "ddprun/optim/step_extent.h"
#include "ddprun/plugin/precision.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// The run, as far as it is known where there is no experiment: sizes are 0.
RunDescription describe(const ProcessGroup& group, Precision& precision,
                        const OptimizerConfig& optimizer, KernelSet kernels);

/// Asks both plugins whether they can run, then lets the precision convert the parameters. Returns
/// those that are trained. Throws ConfigError for a refusal.
const std::vector<NamedTensor>& prepared(const ParameterRoles& roles, const Strategy& strategy,
                                         Precision& precision, const RunDescription& run);

/// What rank `rank` holds by the strategy's plan. Throws Error if the plans of all ranks do not
/// make up the whole.
BufferHolding holding_of(const Strategy& strategy, const ParameterLayout& layout, int rank,
                         StepExtent extent);

}  // namespace ddprun
