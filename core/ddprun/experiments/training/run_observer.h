// Observes a rank's set-up and one warm-up step: memory by phase, what the memory is, the
// allocator's history, operators. It never observes measured steps, because it would disturb them.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "ddprun/device/device.h"
#include "ddprun/experiments/training/training_config.h"
#include "ddprun/measure/phase.h"
#include "ddprun/profile/memory_recorder.h"
#include "ddprun/profile/operator_trace.h"
#include "ddprun/result/rank_result.h"

namespace ddprun {

/// Use it on the training thread only. Make it before the run allocates anything.
class RunObserver {
 public:
  /// Observes from now on what the thread does in Phase::setup, and all phases of `step`, if there
  /// is one. This rank may write files into `folder`; it writes none if that is empty. `device`
  /// outlives this object.
  RunObserver(const ProfileConfig& config, Device& device, std::optional<std::int64_t> step,
              std::filesystem::path folder);
  ~RunObserver();

  /// Call these before and after each step, with its index.
  void before_step(std::int64_t index);
  /// Ends all observation after the observed step. Throws Error if a file cannot be written.
  void after_step(std::int64_t index);

  /// Adds what was observed to `result`. `tokens`: of one forward.
  void add_to(RankResult& result, std::int64_t tokens) const;

 private:
  class Memory;
  void end();

  std::optional<std::int64_t> step_;
  std::filesystem::path folder_;
  std::shared_ptr<void> counting_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<MemoryHistory> history_;
  std::optional<PhaseSubscription> to_memory_, to_history_;
  std::optional<MemoryRecorder> recorder_;
  std::optional<MemoryAccount> account_;  // once its files are written
  std::optional<Roofline> roofline_;      // if operators are recorded
  std::optional<OperatorTrace> operators_;
  OperatorTable table_;
  std::string snapshot_;  // its file, once it is written
};

}  // namespace ddprun
