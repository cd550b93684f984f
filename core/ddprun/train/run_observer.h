// Looks at a rank while it sets up and in one warm-up step: memory by phase, the allocator's
// history. Never at measured steps, which it would disturb.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "ddprun/config/run_config.h"
#include "ddprun/device/device.h"
#include "ddprun/measure/phase.h"
#include "ddprun/result/rank_result.h"

namespace ddprun {

/// Training thread only; made before anything of the run is allocated.
class RunObserver {
 public:
  /// Observes from now on: what the thread does in Phase::setup, and all phases of `step` (empty:
  /// of none). `folder`: where this rank may write files; empty: it writes none. `device` outlives
  /// this.
  RunObserver(const ProfileConfig& config, Device& device, std::optional<std::int64_t> step,
              std::filesystem::path folder);
  ~RunObserver();

  /// Around the steps with their index.
  void before_step(std::int64_t index);
  /// Ends all observing after `step`. Throws Error if a file cannot be written.
  void after_step(std::int64_t index);

  /// Adds what was seen.
  void add_to(RankResult& result) const;

 private:
  class Memory;
  void end();

  std::optional<std::int64_t> step_;
  std::filesystem::path folder_;
  std::shared_ptr<void> counting_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<MemoryHistory> history_;
  std::optional<PhaseSubscription> to_memory_, to_history_;
  std::string snapshot_;  // its file, once it is written
};

}  // namespace ddprun
