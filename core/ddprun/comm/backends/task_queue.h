// A thread that runs collectives one at a time, in the order of the calls.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace ddprun {

/// Runs what is submitted. After a failure everything later fails with the same words. Any thread
/// may submit.
class TaskQueue {
 public:
  using Run = std::function<void()>;

  /// `on_failure` is called on the queue's thread when the first task fails. The destructor runs
  /// what is queued.
  explicit TaskQueue(std::function<void()> on_failure = {});
  /// For tasks that nothing can end: one that takes longer than `limit` is given up, and so is what
  /// the destructor finds. It fails, everything later fails, and its thread is left behind with all
  /// that the task holds. `on_given_up` is called once, before that, on any thread.
  TaskQueue(std::chrono::milliseconds limit, std::function<void()> on_given_up);
  ~TaskQueue();
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  /// Queues `run`. The work's future gives `results`. What `run` captures lives until it is done.
  c10::intrusive_ptr<c10d::Work> submit(std::vector<at::Tensor> results, Run run);

  /// Whether a task is queued or under way.
  bool busy() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // a thread that is left behind keeps it
  std::thread thread_;
  std::thread watch_;
};

}  // namespace ddprun
