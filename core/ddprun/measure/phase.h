// The phases of a rank's work, for whoever looks into a run: a profiler's timeline, and listeners
// in this process.
#pragma once

#include <cstdint>

#include "ddprun/measure/profiler_range.h"

namespace ddprun {

/// In the order of a run. `step` holds the others but `setup`.
enum class Phase : std::uint8_t { setup, step, forward, backward, synchronize, optimizer };
const char* to_string(Phase phase);

/// Hears when phases of a thread begin and end. Phases nest.
class PhaseListener {
 public:
  virtual ~PhaseListener();
  virtual void begin(Phase phase) = 0;
  virtual void end(Phase phase) = 0;
};

/// While it lives, `listener` hears of the phases of the thread that made it, beside those that
/// listened before. Subscriptions of a thread end in the reverse order of their beginning.
class PhaseSubscription {
 public:
  explicit PhaseSubscription(PhaseListener& listener);
  ~PhaseSubscription();
  PhaseSubscription(const PhaseSubscription&) = delete;
  PhaseSubscription& operator=(const PhaseSubscription&) = delete;

 private:
  friend class PhaseScope;
  PhaseListener& listener_;
  PhaseSubscription* earlier_;
};

/// A phase of the calling thread, from construction to end. `payload` is for the profiler: the
/// step's number, say.
class PhaseScope {
 public:
  explicit PhaseScope(Phase phase, std::int64_t payload = 0);
  ~PhaseScope();
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  ProfilerRange range_;
  Phase phase_;
};

}  // namespace ddprun
