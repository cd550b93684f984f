// How long the ranks go on taking samples: the section `repeat:` at work.
#pragma once

#include <cstdint>

#include "ddprun/comm/group/process_group.h"
#include "ddprun/config/repeat_config.h"

namespace ddprun {

/// Whether all ranks take another sample. They must agree, and each has a clock of its own: from
/// the moment that time could end the measurement, rank 0's counts.
class Repetition {
 public:
  /// `group` outlives this object.
  Repetition(const RepeatConfig& config, ProcessGroup& group) : config_(config), group_(group) {}

  /// `samples`: how many were taken, warm-up included. All ranks call it alike, before each
  /// sample.
  bool goes_on(std::int64_t samples);

 private:
  RepeatConfig config_;
  ProcessGroup& group_;
  std::int64_t begin_ns_ = 0;
};

}  // namespace ddprun
