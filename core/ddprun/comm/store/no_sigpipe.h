// Keeps a write to a dead peer from ending the process.
#pragma once

#include <csignal>
#include <ctime>

namespace ddprun {

/// As long as this object lives, SIGPIPE does not reach this thread. It never reaches a thread that
/// this thread starts meanwhile. Writes to a closed connection fail with EPIPE instead. gloo writes
/// without MSG_NOSIGNAL, and the signal's default action would end the process before it can say
/// which rank died.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::sigemptyset(&sigpipe_);
    ::sigaddset(&sigpipe_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~NoSigpipe() {
    const timespec at_once{};
    if (!was_pending_) ::sigtimedwait(&sigpipe_, nullptr, &at_once);  // what came meanwhile
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t sigpipe_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

}  // namespace ddprun
