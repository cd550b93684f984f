// Handlers that set flags.
#include "ddprun/rank/asked_by_signal.h"

#include <atomic>

namespace ddprun {

namespace {

std::atomic<bool> save_asked = false, end_asked = false;
static_assert(std::atomic<bool>::is_always_lock_free);

void note(int signal) { (signal == SIGUSR1 ? save_asked : end_asked) = true; }

void watch(int signal, struct sigaction& before) {
  struct sigaction action = {};
  action.sa_handler = note;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, &before);
}

}  // namespace

AskedBySignal::AskedBySignal() {
  save_asked = end_asked = false;
  watch(SIGUSR1, save_before_);
  watch(SIGTERM, end_before_);
}

AskedBySignal::~AskedBySignal() {
  sigaction(SIGUSR1, &save_before_, nullptr);
  sigaction(SIGTERM, &end_before_, nullptr);
}

bool AskedBySignal::take_save() { return save_asked.exchange(false); }
bool AskedBySignal::to_end() const { return end_asked; }

}  // namespace ddprun
