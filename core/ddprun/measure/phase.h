// The phases of a rank's work, as a profiler's timeline shows them and listeners in this process
// hear of them.
#pragma once

#include <array>
#include <cstdint>

#include "ddprun/base/choice.h"
#include "ddprun/measure/profiler_range.h"

namespace ddprun {

/// In the order of a run. All but `setup` lie within `step`.
enum class Phase : std::uint8_t { setup, step, forward, backward, synchronize, optimizer };
constexpr auto choice_names(Phase) {
  return std::array{"setup", "step", "forward", "backward", "synchronize", "optimizer"};
}
constexpr const char* to_string(Phase phase) { return name_of(phase); }

/// Hears when phases of a thread begin and end. Phases nest.
class PhaseListener {
 public:
  virtual ~PhaseListener();
  virtual void begin(Phase phase) = 0;
  virtual void end(Phase phase) = 0;
};

/// As long as this object lives, `listener` hears of the phases of the thread that made the object.
/// Earlier subscriptions go on hearing too. A thread's subscriptions end in the reverse order of
/// their beginning.
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

/// A phase of the calling thread, while it lives. Profilers show `payload`: the step's number.
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
