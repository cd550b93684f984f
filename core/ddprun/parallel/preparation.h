// What plugins are asked before they take part in training: whether they can, in which dtypes, and
// by which plan.
#pragma once

#include <vector>

#include "ddprun/comm/group/process_group.h"
#include "ddprun/optim/named_tensor.h"
#include "ddprun/optim/parameter_roles.h"
#include "ddprun/optim/step_extent.h"
#include "ddprun/plugin/precision.h"
#include "ddprun/plugin/run_description.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// What is known of one rank's training before there is memory for it.
struct Preparation {
  ParameterRoles roles;
  ParameterLayout layout;  ///< of what is trained
  RunDescription run;      ///< what plugins were asked about
  /// Of this rank; with StepExtent::forward nothing travels, and no gradient is held.
  Plan plan;
};

/// Holds the ranks' models against each other, describes the run as it is here, asks both plugins
/// whether they can take part, lets the precision convert the parameters, lays out what is trained,
/// and asks the strategy for its plan. Throws ConfigError, on all ranks, if models, plugins, plans
/// or optimizers differ, and for a refusal; Error if the plans of all ranks do not make up the
/// whole. All ranks call it.
Preparation prepare(const std::vector<NamedTensor>& parameters, ProcessGroup& group,
                    const Strategy& strategy, Precision& precision,
                    const OptimizerConfig& optimizer, RunDescription run, StepExtent extent);

/// The ranks that own every element once, `shards` of them as in a plan, and this one among them;
/// 0: all. All ranks call it.
ProcessGroup& shard_group_of(ProcessGroup& group, int shards);

}  // namespace ddprun
