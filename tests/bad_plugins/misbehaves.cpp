// A strategy that comes through the checks of its descriptor and does what its library is called:
// when that is loaded or its process exits, or, of one that was set up, when it is destroyed.
#include <dlfcn.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "ddprun/plugin/export.h"
#include "ddprun/plugin/run_description.h"
#include "ddprun/plugin/strategy.h"

namespace {

std::string name_of_library() {
  static const int here = 0;
  ::Dl_info library = {};
  ::dladdr(&here, &library);
  return std::filesystem::path(library.dli_fname).stem();
}

/// Longer than a trial may last; who reads what this process prints need not wait.
[[noreturn]] void stay() {
  ::close(STDOUT_FILENO);
  ::close(STDERR_FILENO);
  ::sleep(40);
  ::_exit(0);
}

void abort_on_exit(int /*status*/, void* /*argument*/) { std::abort(); }

struct Library {
  const std::string does = name_of_library();

  Library() {
    if (does == "ends_when_loaded") std::_Exit(3);
    if (does == "aborts_when_loaded") std::abort();
    if (does == "forks_when_loaded" && ::fork() == 0) stay();
    if (does == "doubles_when_loaded" && ::fork() < 0) std::abort();
    if (does == "aborts_at_exit_of_all") ::on_exit(abort_on_exit, nullptr);
  }
  ~Library() noexcept(false) {
    if (does == "aborts_at_exit") std::abort();
    if (does == "throws_at_exit") throw 7;
    while (does == "hangs_at_exit") ::pause();
  }
} library;

class Misbehaves final : public ddprun::Strategy {
 public:
  ~Misbehaves() override {
    if (set_up_ && library.does == "aborts_when_destroyed") std::abort();
  }
  void setup(ddprun::StrategyContext& context) override {
    set_up_ = true;
    Strategy::setup(context);
  }
  std::optional<ddprun::Refusal> unsupported(const ddprun::RunDescription&) const override {
    if (library.does == "crashes_when_asked") std::raise(SIGSEGV);
    return {};
  }
  void finish_backward() override {}

 private:
  bool set_up_ = false;
};

}  // namespace

DDPRUN_STRATEGY(Misbehaves, "misbehaves", "does what its library is called", "1.0")
