// Runs collectives one at a time, in the order of the calls: on a thread of its own, or on that of
// who waits.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "ddprun/comm/group/future_work.h"
#include "ddprun/comm/store/collective_kind.h"

namespace ddprun {

/// Runs what is submitted. After a failure everything later fails with the same words. Any thread
/// may submit.
class TaskQueue {
 public:
  using Run = std::function<void()>;

  /// Who waits for a task runs it, and those before it, as far as no other thread has begun with
  /// them: a thread that wakes up costs more than a small collective. `on_failure` is called on the
  /// thread on which the first task fails. The destructor runs what is queued.
  explicit TaskQueue(std::function<void()> on_failure = {});
  /// For tasks that nothing can end: one that takes longer than `limit` is given up, and so is what
  /// the destructor finds. It fails, everything later fails, and its thread is left behind with all
  /// that the task holds. So tasks run on the queue's thread alone. `on_given_up` is called once,
  /// before that, on any thread.
  TaskQueue(std::chrono::milliseconds limit, std::function<void()> on_given_up);
  ~TaskQueue();

  /// Queues `run`. The work's future gives `results`. What `run` captures lives until it is done.
  /// With Await::batch the queue's thread is not woken for it, unless the work is dropped before
  /// someone has waited.
  c10::intrusive_ptr<FutureWork> submit(std::vector<at::Tensor> results, Run run,
                                        Await await = Await::later);
  /// Runs it on this thread, after all that is queued, and throws what it throws. For a queue
  /// without a limit.
  void run(Run run);

  /// Whether a task is queued or under way.
  bool busy() const;
  /// Whether someone waits for a task that was submitted.
  bool awaited() const;

 private:
  struct State;
  class TaskWork;
  std::shared_ptr<State> state_;  // a thread that is left behind keeps it
  std::thread thread_;
  std::thread watch_;
};

}  // namespace ddprun
