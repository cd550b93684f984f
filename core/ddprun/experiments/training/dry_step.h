// Steps of one rank on tensors without memory: what it would hold and send, known before it runs;
// and the refusal of a run for which the machine has too little memory.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "ddprun/config/experiment.h"
#include "ddprun/config/registry.h"
#include "ddprun/experiments/training/training_config.h"
#include "ddprun/result/account.h"

namespace ddprun {

/// What the rank that holds most would hold in the step whose phases a run looks at, and send.
///
/// The steps are the run's own: the same Trainer, model, strategy, precision and optimizer, on
/// tensors of PyTorch's device meta, which have sizes and no values, in a group whose peers are not
/// there. So there is no second formula that could drift from what runs. An attention that does not
/// compute by PyTorch's operators is taken by Attention::memory().
///
/// Of each collective it says what had been computed when the rank enqueued it and when it needed
/// it, so that times follow from rates (step_time()).
///
/// It takes tens of milliseconds, in a process of its own (this one starts no thread, and stays as
/// it was, if a plugin crashes on such tensors). Where something cannot take such tensors,
/// Account::unknown says so. Throws ConfigError if the plugins refuse that many ranks.
/// `ranks_per_host` 0: all are on one.
Account dry_step(const Experiment& experiment, const PluginRegistry& registry,
                 int ranks_per_host = 0);
/// dry_step() of each, in one process as far as none crashes there: to begin one takes longer than
/// a step, the longer the more memory this process has.
std::vector<Account> dry_steps(std::span<const Experiment* const> experiments,
                               const PluginRegistry& registry, int ranks_per_host = 0);

/// The step whose phases a run observes that begins at step `first`: the last of the warm-up that
/// runs phase by phase; nothing if there is none.
std::optional<std::int64_t> observed_step(const TrainingConfig& config, std::int64_t first = 0);

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
