// How many steps the runs with planted faults make, and which of them they do not look at.
#pragma once

#include <algorithm>
#include <cstdlib>

#include "ddprun/experiments/training/run_proof.h"
#include "ddprun/experiments/training/training_config.h"

namespace ddprun::test {

inline constexpr int kSteps = 8;  // warm-up included
inline constexpr int kWarmup = 2;
/// With 12 no run looks at itself just before the last step. DDPRUN_PROOF_SEED: another one, with
/// which faults of a single step may be seen or not.
inline int proof_seed() {
  const char* const other = std::getenv("DDPRUN_PROOF_SEED");
  return other == nullptr ? 12 : std::atoi(other);
}

/// A step (not the first, not the last) at which, and before which, no run of these tests looks at
/// itself.
inline int unseen_step() {
  TrainConfig train;
  train.warmup_steps = kWarmup;
  train.steps = kSteps - kWarmup;
  const auto drawn = drawn_steps(proof_seed(), steps_from(0, train));
  const auto looks = [&](int step) { return std::ranges::binary_search(drawn, step); };
  for (int step = 2; step + 1 < kSteps; ++step) {
    if (!looks(step) && !looks(step - 1)) return step;
  }
  return 0;
}

}  // namespace ddprun::test
