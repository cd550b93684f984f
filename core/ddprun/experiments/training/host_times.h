// How long the host was in the phases of a step, beside the device that works behind it.
#pragma once

#include <array>
#include <cstdint>

#include "ddprun/measure/phase.h"
#include "ddprun/result/sample.h"

namespace ddprun {

/// Of one step; training thread.
class HostTimes final : public PhaseListener {
 public:
  void begin(Phase phase) override;
  void end(Phase phase) override;
  /// Phases that never came are left out of `sample`.
  void add_to(Sample& sample) const;

 private:
  static constexpr std::size_t kPhases = choice_names(Phase()).size();
  std::array<std::int64_t, kPhases> begun_ns_ = {}, ns_ = {};
};

}  // namespace ddprun
