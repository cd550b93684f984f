// Phases as profiler ranges, passed on to the thread's listeners.
#include "ddprun/measure/phase.h"

namespace ddprun {

namespace {

thread_local PhaseSubscription* newest = nullptr;

}  // namespace

PhaseListener::~PhaseListener() = default;

PhaseSubscription::PhaseSubscription(PhaseListener& listener)
    : listener_(listener), earlier_(newest) {
  newest = this;
}

PhaseSubscription::~PhaseSubscription() { newest = earlier_; }

PhaseScope::PhaseScope(Phase phase, std::int64_t payload)
    : range_(to_string(phase), payload), phase_(phase) {
  for (auto* each = newest; each != nullptr; each = each->earlier_) each->listener_.begin(phase);
}

PhaseScope::~PhaseScope() {
  for (auto* each = newest; each != nullptr; each = each->earlier_) each->listener_.end(phase_);
}

}  // namespace ddprun
