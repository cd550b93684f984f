// A strategy that comes through its trial, and crashes when it is asked whether it can run.
#include <csignal>

#include "ddprun/plugin/export.h"
#include "ddprun/plugin/run_description.h"
#include "ddprun/plugin/strategy.h"

namespace {

class Crashes final : public ddprun::Strategy {
 public:
  void finish_backward() override {}
  std::optional<ddprun::Refusal> unsupported(const ddprun::RunDescription&) const override {
    std::raise(SIGSEGV);
    return {};
  }
};

}  // namespace

DDPRUN_STRATEGY(Crashes, "crashes", "crashes when it is asked", "1.0")
