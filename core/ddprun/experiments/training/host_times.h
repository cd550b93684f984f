// How long the host was in the phases of a step, beside the device that works behind it.
#pragma once

#include <array>
#include <cstdint>

#include "ddprun/base/clock.h"
#include "ddprun/experiments/training/training.h"
#include "ddprun/measure/phase.h"
#include "ddprun/result/sample.h"

namespace ddprun {

/// Of one step; training thread.
class HostTimes final : public PhaseListener {
 public:
  void begin(Phase phase) override { begun_ns_[static_cast<std::size_t>(phase)] = now_ns(); }
  void end(Phase phase) override {
    const auto at = static_cast<std::size_t>(phase);
    ns_[at] += now_ns() - begun_ns_[at];
  }
  /// Phases that never came are left out of `sample`.
  void add_to(Sample& sample) const {
    const Training& q = training();
    const auto add = [&](const Quantity& quantity, Phase phase) {
      const std::int64_t ns = ns_[static_cast<std::size_t>(phase)];
      if (ns > 0) sample[quantity] = to_ms(ns);
    };
    add(q.host_ms, Phase::step);
    add(q.host_forward_ms, Phase::forward);
    add(q.host_backward_ms, Phase::backward);
  }

 private:
  static constexpr std::size_t kPhases = choice_names(Phase()).size();
  std::array<std::int64_t, kPhases> begun_ns_ = {}, ns_ = {};
};

}  // namespace ddprun
