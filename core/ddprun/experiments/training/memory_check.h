// Refuses a run for which the machine has too little memory, before a rank starts.
#pragma once

#include <cstdint>

#include "ddprun/config/experiment.h"
#include "ddprun/config/registry.h"

namespace ddprun {

/// Throws ConfigError if `local_ranks` ranks would together take more than `available` bytes
/// (available_memory()): the tensors of dry_step() at their peak, set-up included, and what the
/// program and its libraries take. Does nothing with world.memory_check false, with
/// world.memory_limit_gb, whose runs show what happens at the limit, and where memory is not known.
void check_memory(const Experiment& experiment, const PluginRegistry& registry,
                  std::int64_t local_ranks, std::int64_t available);
/// With this machine's memory.
void check_memory(const Experiment& experiment, const PluginRegistry& registry,
                  std::int64_t local_ranks);

}  // namespace ddprun
