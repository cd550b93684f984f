// Turns the signals that end a run (Ctrl-C, SIGTERM, SIGHUP) and SIGCHLD into a descriptor to poll.
#pragma once

#include <csignal>

namespace ddprun {

/// While it lives, SIGINT, SIGTERM, SIGHUP and SIGCHLD of this process wait in fd() instead of
/// acting: whatever is under way (a result being written) is finished first. A signal that was
/// ignored at the start (nohup, a background job of a script) stays ignored. One at a time; the
/// process must be single-threaded.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  int fd() const { return fd_; }
  /// Empties fd(). Returns the stop signal that arrived since the last call (the last, if several),
  /// or 0.
  int take();
  /// In a forked child: closes fd(), makes it deaf to Ctrl-C and hang-up (the parent decides), and
  /// unblocks the rest.
  void leave_to_parent();

 private:
  int fd_ = -1;
  sigset_t previous_mask_ = {};
};

}  // namespace ddprun
