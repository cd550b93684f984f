// Steps of one rank on tensors without memory: what it would hold and send, known before it runs.
#pragma once

#include <optional>

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
/// it, so that times follow from rates (step_time.h).
///
/// It takes tens of milliseconds, in a process of its own (this one starts no thread, and stays as
/// it was, if a plugin crashes on such tensors). Where something cannot take such tensors,
/// Account::unknown says so. Throws ConfigError if the plugins refuse that many ranks.
/// `ranks_per_host` 0: all are on one.
Account dry_step(const Experiment& experiment, const PluginRegistry& registry,
                 int ranks_per_host = 0);

/// The step whose phases a run observes that begins at step `first`: the last of the warm-up that
/// runs phase by phase; nothing if there is none.
std::optional<std::int64_t> observed_step(const TrainingConfig& config, std::int64_t first = 0);

}  // namespace ddprun
