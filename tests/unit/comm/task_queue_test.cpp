// The queue of collectives: order, who runs them, failures, and tasks that never end.
#include "ddprun/comm/backends/task_queue.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/matchers.h"

namespace ddprun {
namespace {

using std::chrono::milliseconds;

/// What waiting for it throws; empty: nothing.
std::string failure_of(const c10::intrusive_ptr<c10d::Work>& work) {
  try {
    work->wait();
  } catch (const std::exception& failure) {
    return failure.what();
  }
  return {};
}

TEST(TaskQueue, RunsTasksInTheOrderOfTheCallsAndItsEndRunsTheRest) {
  std::vector<int> ran;
  {
    TaskQueue queue;
    for (int i = 0; i < 100; ++i) queue.submit({}, [&ran, i] { ran.push_back(i); });
  }
  ASSERT_EQ(ran.size(), 100u);
  EXPECT_TRUE(std::is_sorted(ran.begin(), ran.end()));
}

TEST(TaskQueue, IsNotBusyWhenItsLastWorkIsDone) {
  TaskQueue queue;
  for (int i = 0; i < 1000; ++i) {
    queue.submit({}, [] {})->wait();
    ASSERT_FALSE(queue.busy());
  }
}

TEST(TaskQueue, AfterAFailureEverythingLaterFailsWithTheSameWords) {
  std::vector<std::string> ran;
  TaskQueue queue([&ran] { ran.emplace_back("on_failure"); });
  EXPECT_EQ(failure_of(queue.submit({}, [&ran] { ran.emplace_back("first"); })), "");
  EXPECT_EQ(failure_of(queue.submit({}, [] { throw std::runtime_error("a cable"); })), "a cable");
  EXPECT_EQ(failure_of(queue.submit({}, [&ran] { ran.emplace_back("third"); })), "a cable");
  EXPECT_THAT(ran, ElementsAre("first", "on_failure"));
}

/// Notes on which threads tasks run, in their order.
class Threads {
 public:
  TaskQueue::Run note() {
    return [this] { ids_.push_back(std::this_thread::get_id()); };
  }
  int count() const { return static_cast<int>(ids_.size()); }
  int here() const {
    return static_cast<int>(std::ranges::count(ids_, std::this_thread::get_id()));
  }

 private:
  std::vector<std::thread::id> ids_;  // tasks run one at a time
};

TEST(TaskQueue, WhoWaitsAtOnceRunsTheTask) {
  Threads threads;
  TaskQueue queue;
  for (int i = 0; i < 100; ++i) queue.submit({}, threads.note(), Await::batch)->wait();
  EXPECT_EQ(threads.here(), 100);
}

TEST(TaskQueue, RunIsOnTheCallersThreadAfterAllThatIsQueued) {
  std::vector<int> ran;
  Threads threads;
  TaskQueue queue;
  for (int i = 0; i < 3; ++i) {
    queue.submit({}, [&ran, i] { ran.push_back(i); });
  }
  queue.run([&] {
    EXPECT_TRUE(queue.busy());
    ran.push_back(3);
    threads.note()();
  });
  EXPECT_FALSE(queue.busy());
  EXPECT_THAT(ran, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(threads.here(), 1);
}

TEST(TaskQueue, WhatIsSubmittedWhileRunIsUnderWayRunsAfterIt) {
  std::vector<int> ran;
  std::promise<void> last;
  TaskQueue queue;
  queue.run([&] {
    queue.submit({}, [&] {
      ran.push_back(2);
      last.set_value();
    });
    ran.push_back(1);
  });
  last.get_future().wait();
  EXPECT_THAT(ran, ElementsAre(1, 2));
}

TEST(TaskQueue, RunThrowsWhatItsTaskDoesAndThenWhatFailedFirst) {
  int failures = 0;
  TaskQueue queue([&failures] { ++failures; });
  const auto message_of = [&queue](const char* text) -> std::string {
    try {
      queue.run([text] { throw std::runtime_error(text); });
    } catch (const std::exception& failure) {
      return failure.what();
    }
    return {};
  };
  EXPECT_EQ(message_of("a cable"), "a cable");
  EXPECT_EQ(message_of("another"), "a cable");
  EXPECT_EQ(failure_of(queue.submit({}, [] {})), "a cable");
  EXPECT_EQ(failures, 1);
}

TEST(TaskQueue, WhoWaitsRunsWhatIsBeforeItsTaskToo) {
  std::vector<int> ran;
  TaskQueue queue;
  std::vector<c10::intrusive_ptr<FutureWork>> works;
  for (int i = 0; i < 10; ++i) {
    works.push_back(queue.submit(
        {}, [&ran, i] { ran.push_back(i); }, Await::batch));
  }
  EXPECT_FALSE(queue.awaited());
  works[6]->wait();
  EXPECT_THAT(ran, ElementsAre(0, 1, 2, 3, 4, 5, 6));
  EXPECT_TRUE(queue.busy());
  works[9]->wait();
  EXPECT_EQ(ran.size(), 10u);
}

TEST(TaskQueue, WhatNobodyWaitsForRunsOnTheThread) {
  Threads threads;
  TaskQueue queue;
  std::promise<void> ran;
  queue.submit({}, threads.note(), Await::batch);  // and its work is dropped
  queue.submit({}, [&] {
    threads.note()();
    ran.set_value();
  });
  ran.get_future().wait();
  EXPECT_EQ(threads.count(), 2);
  EXPECT_EQ(threads.here(), 0);
}

TEST(TaskQueue, WhatFollowsATaskThatTheThreadHasBegunIsLeftToWhoWaits) {
  Threads threads;
  TaskQueue queue;
  std::promise<void> begun;
  const auto first = queue.submit({}, [&] {
    begun.set_value();
    while (!queue.awaited()) std::this_thread::yield();
  });
  begun.get_future().wait();
  std::vector<c10::intrusive_ptr<FutureWork>> works;
  for (int i = 0; i < 10; ++i) works.push_back(queue.submit({}, threads.note()));
  works.back()->wait();
  EXPECT_EQ(threads.here(), 10);
  EXPECT_TRUE(first->isSuccess());
}

TEST(TaskQueue, ManyThreadsSubmitAndWait) {
  constexpr int kThreads = 4, kTasks = 500;
  std::vector<int> ran;
  TaskQueue queue;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&queue, &ran, thread] {
      for (int i = 0; i < kTasks; ++i) {
        const auto task = [&ran, i] { ran.push_back(i); };
        if (i % 4 == 1) {
          queue.run(task);
          continue;
        }
        const auto work = queue.submit({}, task, i % 2 == 0 ? Await::batch : Await::later);
        if ((i + thread) % 3 != 0) work->wait();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  queue.submit({}, [] {})->wait();
  EXPECT_EQ(ran.size(), std::size_t{kThreads} * kTasks);
}

/// A task that ends when the test does.
class Endless {
 public:
  ~Endless() { end_.set_value(); }
  TaskQueue::Run run() {
    return [end = end_.get_future().share()] { end.wait(); };
  }

 private:
  std::promise<void> end_;
};

TEST(TaskQueue, ATaskThatDoesNotEndIsGivenUpWithAllThatFollow) {
  Endless endless;
  std::atomic<int> given_up = 0;
  TaskQueue queue(milliseconds(50), [&given_up] { ++given_up; });
  EXPECT_EQ(failure_of(queue.submit({}, [] {})), "") << "one that ends is none of these";
  const auto first = queue.submit({}, endless.run());
  const auto second = queue.submit({}, [] { ADD_FAILURE() << "it must not run"; });
  EXPECT_THAT(failure_of(first), HasSubstr("no end within 0.05 s: timed out"));
  EXPECT_THAT(failure_of(second), HasSubstr("no end within 0.05 s: timed out"));
  EXPECT_THAT(failure_of(queue.submit({}, [] {})), HasSubstr("timed out"));
  EXPECT_EQ(given_up, 1);
}

TEST(TaskQueue, WithALimitItsEndGivesUpWhatItFinds) {
  Endless endless;
  std::atomic<int> given_up = 0;
  c10::intrusive_ptr<c10d::Work> work;
  {
    TaskQueue queue(std::chrono::hours(1), [&given_up] { ++given_up; });
    work = queue.submit({}, endless.run());
  }
  EXPECT_THAT(failure_of(work), HasSubstr("the group ended before"));
  EXPECT_EQ(given_up, 1);
}

TEST(TaskQueue, WithALimitItsEndAfterTheLastTaskIsNoGivingUp) {
  std::atomic<int> given_up = 0;
  for (int i = 0; i < 100; ++i) {
    TaskQueue queue(std::chrono::hours(1), [&given_up] { ++given_up; });
    queue.submit({}, [] {})->wait();
  }
  EXPECT_EQ(given_up, 0);
}

}  // namespace
}  // namespace ddprun
