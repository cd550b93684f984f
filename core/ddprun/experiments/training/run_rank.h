// Runs one rank of one experiment, from connecting to its result: build, prove, warm up, measure,
// prove.
#pragma once

#include <vector>

#include "ddprun/config/experiment.h"
#include "ddprun/config/registry.h"
#include "ddprun/config/run_context.h"
#include "ddprun/result/rank_result.h"

namespace ddprun {

/// Runs the experiment as this rank in this process. Returns the results of all ranks, in rank
/// order, on every rank. If the proof before the first step failed, no step runs: the results have
/// the checks and no samples. Throws ddprun::Error.
std::vector<RankResult> run_rank(const Experiment& experiment, const PluginRegistry& registry,
                                 const RunContext& context);

}  // namespace ddprun
