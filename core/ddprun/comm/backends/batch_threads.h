// Keeps threads that are woken from taking the core of one that works.
#pragma once

#include <pthread.h>
#include <sched.h>

namespace ddprun {

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
