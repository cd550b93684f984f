// What gloo's threads inherit from the thread that starts them: signals and scheduling.
#pragma once

#include <pthread.h>
#include <sched.h>

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

/// As long as this object lives, threads that this thread starts are scheduled as SCHED_BATCH, and
/// stay so: when one is woken, it waits for the core until who runs there sleeps or has used up its
/// slice. gloo needs that where its threads share one core. Its event thread, woken by the other
/// thread's write, would take the core from it, and then spin until its slice of some milliseconds
/// ends, because the connection's lock is still held (gloo, Pair::handleEvents). A real-time policy
/// that the user has chosen stands.
class BatchThreads {
 public:
  BatchThreads() {
    ::pthread_getschedparam(::pthread_self(), &policy_, &before_);
    set(SCHED_BATCH);
  }
  ~BatchThreads() { set(policy_); }
  BatchThreads(const BatchThreads&) = delete;
  BatchThreads& operator=(const BatchThreads&) = delete;

 private:
  void set(int policy) {
    if (policy_ == SCHED_OTHER) ::pthread_setschedparam(::pthread_self(), policy, &before_);
  }

  int policy_ = SCHED_OTHER;
  sched_param before_{};
};

}  // namespace ddprun
