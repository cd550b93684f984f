// What ranks of planned runs would take.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runner/launch/plan.h"

namespace ddprun {

/// What a rank of the run would take; empty: its kind does not predict it.
std::optional<Account> account_of(const PlannedRun& run);
/// Of each, which takes less time than one by one. `ranks_per_host` 0: all are on one.
std::vector<std::optional<Account>> accounts_of(std::span<const PlannedRun> runs,
                                                std::int64_t ranks_per_host);

}  // namespace ddprun
