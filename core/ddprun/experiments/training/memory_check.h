// Refuses a run for which the machine has too little memory, before a rank starts.
#pragma once

#include <cstdint>
#include <optional>

#include "ddprun/config/experiment.h"
#include "ddprun/config/registry.h"
#include "ddprun/result/account.h"

namespace ddprun {

/// What a rank takes of a machine's memory, whose tensors take that many bytes at their peak:
/// beside them holes of the heap and packed operands, threads, what a backend stages, and those
/// pages of the launching process that it writes. That process has loaded LibTorch when it asks,
/// and forked ranks share its pages; so has a rank that a launcher started, when it asks for
/// itself.
double rank_bytes(double tensors);

/// Throws ConfigError if `local_ranks` ranks would together take more than `available` bytes
/// (available_memory()): rank_bytes() of dry_step() each, set-up included. Does nothing with
/// world.memory_check false, with world.memory_limit_gb, whose runs show what happens at the limit,
/// and where memory is not known.
///
/// Returns the account where a rough bound did not do, since it takes a while.
std::optional<Account> check_memory(const Experiment& experiment, const PluginRegistry& registry,
                                    std::int64_t local_ranks, std::int64_t available);
/// With this machine's memory.
std::optional<Account> check_memory(const Experiment& experiment, const PluginRegistry& registry,
                                    std::int64_t local_ranks);

}  // namespace ddprun
