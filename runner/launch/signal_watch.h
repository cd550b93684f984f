// Turns the signals that end a run (Ctrl-C, SIGTERM, SIGHUP), SIGUSR1 and SIGCHLD into a descriptor
// to poll.
#pragma once

#include <csignal>

namespace ddprun {

/// As long as this object lives, SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGCHLD of this process wait
/// in fd() instead of acting. So whatever is under way, such as writing a result, is finished
/// first. A signal that was ignored at the start (nohup, a background job of a script) stays
/// ignored. There is one such object at a time, and the process must be single-threaded.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  int fd() const { return fd_; }
  struct Taken {
    int stop = 0;       ///< the last signal that ends a run
    bool save = false;  ///< SIGUSR1, which ranks understand
  };
  /// Empties fd().
  Taken take();
  /// Call it in a forked child. It closes fd(), ignores SIGUSR1, Ctrl-C and hang-up, about which
  /// the parent decides, and unblocks the other signals.
  void leave_to_parent();

 private:
  int fd_ = -1;
  sigset_t previous_mask_ = {};
};

}  // namespace ddprun
