// How rows of different numbers of ranks compare.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <vector>

#include "ddprun/result/row_runs.h"

namespace ddprun {

/// The experiment but for its name and these keys ("world.size"): runs that are equal in it differ
/// in nothing else. Null where a run has no experiment.
nlohmann::json config_without(const RunStatistics& run, std::initializer_list<const char*> keys);

/// strong: more ranks share the same tokens of a step. weak: each rank keeps its tokens.
enum class Scaling { strong, weak };

/// The timed run on the fewest ranks, that run itself included, that differs from it only in its
/// ranks, and in its batch as that scaling has it. Null if none is on another number of ranks.
const RunStatistics* scaling_base(const RunStatistics& run,
                                  const std::vector<const RunStatistics*>& runs, Scaling scaling);

/// Whether a rank of each has as many threads, so that ranks are equal parts of the machine.
bool equal_ranks(const RunStatistics& a, const RunStatistics& b);

/// What of the base's speed a rank keeps. No value: there is no base, or ranks are not equal.
Figure efficiency(const RunStatistics& run, const std::vector<const RunStatistics*>& runs,
                  Scaling scaling);

/// What one rank has of the machine's time for the base's share of work, in ms: step x ranks
/// (strong), or step (weak). The efficiency is the quotient of two of them.
double cost_ms(const RunStatistics& run, Scaling scaling);

}  // namespace ddprun
