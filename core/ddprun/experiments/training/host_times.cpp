// Sums of the host's clock.
#include "ddprun/experiments/training/host_times.h"

#include "ddprun/base/clock.h"
#include "ddprun/experiments/training/training.h"

namespace ddprun {

void HostTimes::begin(Phase phase) { begun_ns_[static_cast<std::size_t>(phase)] = now_ns(); }

void HostTimes::end(Phase phase) {
  const auto at = static_cast<std::size_t>(phase);
  ns_[at] += now_ns() - begun_ns_[at];
}

void HostTimes::add_to(Sample& sample) const {
  const Training& q = training();
  const auto add = [&](const Quantity& quantity, Phase phase) {
    const std::int64_t ns = ns_[static_cast<std::size_t>(phase)];
    if (ns > 0) sample[quantity] = to_ms(ns);
  };
  add(q.host_ms, Phase::step);
  add(q.host_forward_ms, Phase::forward);
  add(q.host_backward_ms, Phase::backward);
}

}  // namespace ddprun
