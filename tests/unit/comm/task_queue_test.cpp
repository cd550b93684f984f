// The queue of collectives: order, failures, and tasks that never end.
#include "ddprun/comm/backends/task_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <string>

namespace ddprun {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

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
