// A strategy that comes through the handshake and does something late: when its library is loaded
// or its process exits, or, of one that was set up, when it is destroyed.
#include <unistd.h>

#include <cstdlib>

#include "ddprun/plugin/export.h"
#include "ddprun/plugin/strategy.h"

#ifndef DDPRUN_WHEN_LOADED
#define DDPRUN_WHEN_LOADED
#endif
#ifndef DDPRUN_AT_EXIT
#define DDPRUN_AT_EXIT
#endif
#ifndef DDPRUN_WHEN_DESTROYED
#define DDPRUN_WHEN_DESTROYED
#endif

namespace {

/// Longer than a trial may last; who reads what this process prints need not wait.
[[noreturn, maybe_unused]] void stay() {
  ::close(STDOUT_FILENO);
  ::close(STDERR_FILENO);
  ::sleep(40);
  ::_exit(0);
}

[[maybe_unused]] void abort_on_exit(int /*status*/, void* /*argument*/) { std::abort(); }

struct Static {
  Static() { DDPRUN_WHEN_LOADED; }
  ~Static() noexcept(false) { DDPRUN_AT_EXIT; }
} the_static;

class EndsLate final : public ddprun::Strategy {
 public:
  ~EndsLate() override {
    if (set_up_) {
      DDPRUN_WHEN_DESTROYED;
    }
  }
  void setup(ddprun::StrategyContext& context) override {
    set_up_ = true;
    Strategy::setup(context);
  }
  void finish_backward() override {}

 private:
  bool set_up_ = false;
};

}  // namespace

DDPRUN_STRATEGY(EndsLate, "ends_late", "does something late", "1.0")
