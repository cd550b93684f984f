// Signals by which someone outside asks a process to save, or to save and end.
#pragma once

#include <csignal>

namespace ddprun {

/// As long as this object lives SIGUSR1 asks to save, and SIGTERM to save and end, instead of
/// ending the process. There is one such object at a time.
class AskedBySignal {
 public:
  AskedBySignal();
  ~AskedBySignal();
  AskedBySignal(const AskedBySignal&) = delete;
  AskedBySignal& operator=(const AskedBySignal&) = delete;

  /// Whether SIGUSR1 came since the last call.
  bool take_save();
  /// Whether SIGTERM came.
  bool to_end() const;

 private:
  struct sigaction save_before_ = {}, end_before_ = {};
};

}  // namespace ddprun
