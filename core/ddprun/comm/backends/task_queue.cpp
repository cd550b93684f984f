// The queue, who runs its tasks, and the watch that gives up a task that does not end.
#include "ddprun/comm/backends/task_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <stdexcept>

#include "ddprun/base/clock.h"
#include "ddprun/comm/store/comm_failure.h"

namespace ddprun {

namespace {

using FuturePtr = c10::intrusive_ptr<c10::ivalue::Future>;

}  // namespace

struct TaskQueue::State {
  struct Task {
    Run run;
    std::vector<at::Tensor> results = {};
    FuturePtr future = {};  // none: run() waits
  };
  using Lock = std::unique_lock<std::mutex>;

  void progress();
  void watch(std::chrono::milliseconds limit);
  void give_up(std::exception_ptr why);
  std::exception_ptr run(Task& task);
  void run_first(Lock& lock);
  void help(Lock& lock, std::uint64_t number);
  void want(std::uint64_t number);
  bool has_work() const;
  void wake_thread(Lock& lock);

  std::function<void()> on_failure, on_given_up;
  std::atomic<std::int64_t> began_ns = 0;  // of the task under way; 0: none
  std::atomic<int> helpers = 0;            // who wait for tasks, and run them; changed under mutex
  mutable std::mutex mutex;
  std::condition_variable changed;  // for the thread: it has work, or the queue is closed
  std::condition_variable ended;    // a task that someone waits for, or closed; the watch waits too
  std::deque<Task> tasks;           // the first may be under way
  std::uint64_t submitted = 0;      // tasks so far, which is the last one's number
  std::uint64_t done = 0;
  std::uint64_t wanted = 0;    // the thread runs tasks up to that number
  std::exception_ptr failure;  // of the first that failed
  bool running = false;        // the first task, on some thread
  bool asleep = false;         // the thread, and nobody has woken it
  bool watched = false;        // by a thread that gives up what takes too long; set before tasks
  bool closed = false;
  bool given_up = false;
};

/// Whether the thread is to run the first task now. It leaves tasks to who waits.
bool TaskQueue::State::has_work() const {
  return !running && helpers == 0 && !tasks.empty() && (closed || done < wanted);
}

/// Wakes the thread if it has something to do, and unlocks.
void TaskQueue::State::wake_thread(Lock& lock) {
  const bool wake = asleep && (closed || has_work());
  if (wake) asleep = false;
  lock.unlock();
  if (wake) changed.notify_one();
}

/// Runs tasks until the queue is closed and empty, or given up.
void TaskQueue::State::progress() {
  Lock lock(mutex);
  while (!given_up) {
    if (has_work()) {
      run_first(lock);
    } else if (closed && tasks.empty()) {
      return;
    } else {
      asleep = true;
      changed.wait(lock);
      asleep = false;
    }
  }
}

/// Runs the first task, unlocked meanwhile.
void TaskQueue::State::run_first(Lock& lock) {
  running = true;
  Task& task = tasks.front();  // stays there while it runs: no place in a deque moves
  std::exception_ptr error = failure;
  lock.unlock();
  if (!error) error = run(task);
  lock.lock();
  if (given_up) return;  // its futures are set
  failure = error;
  {
    const Task finished = std::move(task);
    tasks.pop_front();  // before anyone hears of it: a queue whose work is done is not busy
    if (finished.future) {
      lock.unlock();
      if (error) {
        finished.future->setError(error);
      } else {
        finished.future->markCompleted(c10::IValue(finished.results));
      }
      lock.lock();
    }
  }
  running = false;
  ++done;
  if (helpers > 0 || closed) ended.notify_all();
}

std::exception_ptr TaskQueue::State::run(Task& task) {
  std::exception_ptr error;
  if (watched) began_ns = now_ns();
  try {
    task.run();
  } catch (const std::exception&) {
    error = std::current_exception();
    if (on_failure) on_failure();
  }
  if (watched) began_ns = 0;
  return error;
}

/// Returns when the task of that number is done.
void TaskQueue::State::help(Lock& lock, std::uint64_t number) {
  if (done >= number) return;
  ++helpers;
  while (done < number) {
    if (running) {
      ended.wait(lock);
    } else {
      run_first(lock);
    }
  }
  --helpers;
}

/// The thread is to run tasks up to that number.
void TaskQueue::State::want(std::uint64_t number) {
  Lock lock(mutex);
  wanted = std::max(wanted, number);
  wake_thread(lock);
}

/// Looks now and then how long the task under way has taken, until the queue is closed.
void TaskQueue::State::watch(std::chrono::milliseconds limit) {
  using std::chrono::milliseconds;
  const milliseconds period = std::clamp(limit / 10, milliseconds(1), milliseconds(500));
  Lock lock(mutex);
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

/// The work of a task that its waiters may run.
class TaskQueue::TaskWork final : public FutureWork {
 public:
  TaskWork(FuturePtr future, std::shared_ptr<State> state, std::uint64_t number)
      : FutureWork(std::move(future)), state_(std::move(state)), number_(number) {}
  ~TaskWork() override {
    if (!isCompleted()) state_->want(number_);
  }
  void help() override {
    State::Lock lock(state_->mutex);
    state_->help(lock, number_);
    state_->wake_thread(lock);
  }

 private:
  std::shared_ptr<State> state_;
  std::uint64_t number_;
};

TaskQueue::TaskQueue(std::function<void()> on_failure) : state_(std::make_shared<State>()) {
  state_->on_failure = std::move(on_failure);
  thread_ = std::thread([state = state_] { state->progress(); });
}

TaskQueue::TaskQueue(std::chrono::milliseconds limit, std::function<void()> on_given_up)
    : TaskQueue() {
  state_->on_given_up = std::move(on_given_up);
  state_->watched = true;
  watch_ = std::thread([state = state_, limit] { state->watch(limit); });
}

TaskQueue::~TaskQueue() {
  if (state_->watched && busy()) {
    state_->give_up(
        std::make_exception_ptr(std::runtime_error("the group ended before this collective did")));
  }
  State::Lock lock(state_->mutex);
  state_->closed = true;
  state_->ended.notify_all();
  state_->wake_thread(lock);
  if (watch_.joinable()) watch_.join();
  state_->given_up ? thread_.detach() : thread_.join();
}

bool TaskQueue::busy() const {
  const std::lock_guard lock(state_->mutex);
  return !state_->tasks.empty();
}

bool TaskQueue::awaited() const { return state_->helpers > 0; }

c10::intrusive_ptr<FutureWork> TaskQueue::submit(std::vector<at::Tensor> results, Run run,
                                                 Await await) {
  auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors());
  State::Lock lock(state_->mutex);
  if (state_->given_up) return failed_work(state_->failure);
  state_->tasks.push_back({std::move(run), std::move(results), future});
  const std::uint64_t number = ++state_->submitted;
  if (await != Await::batch || state_->watched) state_->wanted = number;
  state_->wake_thread(lock);
  if (state_->watched) return c10::make_intrusive<FutureWork>(std::move(future));
  return c10::make_intrusive<TaskWork>(std::move(future), state_, number);
}

void TaskQueue::run(Run run) {
  const auto state = state_;
  State::Lock lock(state->mutex);
  while (state->done < state->submitted) state->help(lock, state->submitted);
  state->tasks.push_back({.run = std::move(run)});
  ++state->submitted;
  state->run_first(lock);
  const std::exception_ptr failure = state->failure;
  state->wake_thread(lock);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace ddprun
