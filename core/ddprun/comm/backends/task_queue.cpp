// The queue, its thread, and the watch that gives up a task that does not end.
#include "ddprun/comm/backends/task_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <stdexcept>

#include "ddprun/base/clock.h"
#include "ddprun/comm/group/future_work.h"
#include "ddprun/comm/store/comm_failure.h"

namespace ddprun {

namespace {

using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

}  // namespace

struct TaskQueue::State {
  struct Task {
    Run run;
    std::vector<at::Tensor> results;
    FuturePtr future;
  };

  void progress();
  void watch(std::chrono::milliseconds limit);
  void give_up(std::exception_ptr why);
  std::exception_ptr run(Task& task);

  std::function<void()> on_failure, on_given_up;
  std::atomic<std::int64_t> began_ns = 0;  // of the task under way; 0: none
  mutable std::mutex mutex;
  std::condition_variable changed;  // a task more, or closed
  std::condition_variable ended;    // closed; the watch waits for it, and no task wakes the watch
  std::deque<Task> tasks;           // the first is under way
  std::exception_ptr failure;       // of the first that failed
  bool closed = false;
  bool given_up = false;
};

/// Runs tasks until the queue is closed and empty, or given up.
void TaskQueue::State::progress() {
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return closed || !tasks.empty(); });
    if (tasks.empty()) return;
    Task& task = tasks.front();  // stays there while it runs: no place in a deque moves
    std::exception_ptr error = failure;
    lock.unlock();
    if (!error) error = run(task);
    lock.lock();
    if (given_up) return;  // its futures are set
    failure = error;
    {
      const Task done = std::move(task);
      tasks.pop_front();  // before anyone hears of it: a queue whose work is done is not busy
      lock.unlock();
      if (error) {
        done.future->setError(error);
      } else {
        done.future->markCompleted(c10::IValue(done.results));
      }
    }
    lock.lock();
  }
}

std::exception_ptr TaskQueue::State::run(Task& task) {
  std::exception_ptr error;
  began_ns = now_ns();
  try {
    task.run();
  } catch (const std::exception&) {
    error = std::current_exception();
    if (on_failure) on_failure();
  }
  began_ns = 0;
  return error;
}

/// Looks now and then how long the task under way has taken, until the queue is closed.
void TaskQueue::State::watch(std::chrono::milliseconds limit) {
  using std::chrono::milliseconds;
  const milliseconds period = std::clamp(limit / 10, milliseconds(1), milliseconds(500));
  std::unique_lock lock(mutex);
  while (!ended.wait_for(lock, period, [this] { return closed || given_up; })) {
    const std::int64_t began = began_ns;
    if (began == 0 || now_ns() - began < std::chrono::nanoseconds(limit).count()) continue;
    lock.unlock();
    give_up(std::make_exception_ptr(TimeoutError(cause(fmt::format(
        "no end within {:g} s: timed out", std::chrono::duration<double>(limit).count())))));
    lock.lock();
  }
}

/// Fails what is under way and queued. The queue's thread touches nothing of it afterwards.
void TaskQueue::State::give_up(std::exception_ptr why) {
  std::vector<FuturePtr> waited_for;
  {
    const std::lock_guard lock(mutex);
    if (given_up) return;
    given_up = true;
    failure = std::move(why);
    for (const Task& task : tasks) waited_for.push_back(task.future);
  }
  on_given_up();
  for (const FuturePtr& future : waited_for) future->setError(failure);
}

TaskQueue::TaskQueue(std::function<void()> on_failure) : state_(std::make_shared<State>()) {
  state_->on_failure = std::move(on_failure);
  thread_ = std::thread([state = state_] { state->progress(); });
}

TaskQueue::TaskQueue(std::chrono::milliseconds limit, std::function<void()> on_given_up)
    : TaskQueue() {
  state_->on_given_up = std::move(on_given_up);
  watch_ = std::thread([state = state_, limit] { state->watch(limit); });
}

TaskQueue::~TaskQueue() {
  if (watch_.joinable() && busy()) {
    state_->give_up(
        std::make_exception_ptr(std::runtime_error("the group ended before this collective did")));
  }
  {
    const std::lock_guard lock(state_->mutex);
    state_->closed = true;
  }
  state_->changed.notify_one();
  state_->ended.notify_one();
  if (watch_.joinable()) watch_.join();
  state_->given_up ? thread_.detach() : thread_.join();
}

bool TaskQueue::busy() const {
  const std::lock_guard lock(state_->mutex);
  return !state_->tasks.empty();
}

c10::intrusive_ptr<c10d::Work> TaskQueue::submit(std::vector<at::Tensor> results, Run run) {
  auto future =
      c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
  bool takes = false;
  {
    const std::lock_guard lock(state_->mutex);
    takes = !state_->given_up;
    if (takes) state_->tasks.push_back({std::move(run), std::move(results), future});
  }
  if (takes) {
    state_->changed.notify_one();
  } else {
    future->setError(state_->failure);
  }
  return c10::make_intrusive<FutureWork>(std::move(future));
}

}  // namespace ddprun
