// The prediction against the machine, where a rough bound does not settle it.
#include "ddprun/experiments/training/dry_step.h"

#include <algorithm>

#include "ddprun/base/clock.h"
#include "ddprun/base/machine_memory.h"
#include "ddprun/config/experiment_check.h"

namespace ddprun {

namespace {

/// Of a rank beside its tensors, as measured (docs/performance.md, "Many ranks"): always, and as
/// much as its tensors up to some size.
constexpr double kFixedBytes = 12e6;
constexpr double kMostAsTensors = 65e6;

/// More than a step takes, in bytes a rank: ten values of four bytes for a parameter, and for a
/// token of a micro-batch twice what PyTorch's operators keep of a block, scores of a whole
/// attention matrix included, and of the head. So a file of a thousand small runs needs no thousand
/// dry steps.
double rough_bound(const Experiment& experiment) {
  const TrainingConfig& config = training(experiment);
  const ModelConfig& m = config.model;
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  const double of_block = 48 * number(m.d_model) + 16 * number(m.d_ff) +
                          12 * number(m.heads) * number(m.context_length);
  const double of_token = number(m.layers) * of_block + 8 * number(m.vocab_size);
  const double tokens = number(micro_batch(experiment)) * number(m.context_length);
  return 40 * number(m.parameter_count()) + 8 * tokens * of_token;
}

/// Read at most ten times a second: hundreds of rows of a sweep are planned at once.
std::int64_t recently_available() {
  constexpr std::int64_t kRecentNs = 100'000'000;
  static std::int64_t bytes = 0, read_ns = 0;
  if (read_ns == 0 || now_ns() - read_ns > kRecentNs) {
    bytes = available_memory();
    read_ns = now_ns();
  }
  return bytes;
}

}  // namespace

double rank_bytes(double tensors) {
  return kFixedBytes + tensors + std::min(tensors, kMostAsTensors);
}

std::optional<Account> check_memory(const Experiment& experiment, const PluginRegistry& registry,
                                    std::int64_t local_ranks, std::int64_t available) {
  if (!experiment.world.memory_check || experiment.world.memory_limit_gb > 0) return {};
  const auto there = static_cast<double>(available);
  if (static_cast<double>(local_ranks) * rank_bytes(rough_bound(experiment)) <= there) return {};
  Account account = dry_step(experiment, registry);
  if (const PhaseAccount* const peak = account.peak()) {
    const double each = rank_bytes(static_cast<double>(peak->at_peak.sum()));
    refuse_above(
        experiment, "world.memory_check", {local_ranks, each, "at the peak of " + peak->phase},
        there,
        {.what = "the ranks would take more memory than this machine has",
         .hint = "`ddprun account` says what takes it; fewer ranks, a smaller batch, "
                 "model.recompute or another strategy take less; world.memory_check: false runs it "
                 "all the same"});
  }
  return account;
}

std::optional<Account> check_memory(const Experiment& experiment, const PluginRegistry& registry,
                                    std::int64_t local_ranks) {
  return check_memory(experiment, registry, local_ranks, recently_available());
}

}  // namespace ddprun
