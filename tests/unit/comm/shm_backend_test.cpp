// The shm backend: who runs a collective, the memory that ranks share, and what it refuses.
// host_backends_test.cpp has what each collective computes.
#include "ddprun/comm/backends/shm_backend.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <chrono>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "support/matchers.h"
#include "support/thread_ranks.h"

namespace ddprun::shm_backend_test {
namespace {

const CommConfig kShm = {.backend = BackendKind::shm, .timeout_s = 60};

void run_ranks(int count, const std::function<void(ProcessGroup&)>& body) {
  test::run_ranks(
      count,
      [&](ProcessGroup& group) {
        at::set_num_threads(1);  // teams of threads would crowd the ranks out
        body(group);
      },
      kShm);
}

TEST(ShmBackend, WhatIsWaitedForAtOnceIsDoneWhenTheCallReturnsAndTheRecordSaysSo) {
  run_ranks(2, [](ProcessGroup& group) {
    const at::Tensor tensor = at::ones({1000});
    group.all_reduce(tensor, ReduceOp::sum, "x", Await::next);  // and its handle is dropped
    EXPECT_EQ(tensor.sum().item<float>(), 2000);
    EXPECT_THAT(group.open_collectives(), IsEmpty());
    const auto records = group.take_records();
    ASSERT_EQ(records.size(), 1u);
    EXPECT_EQ(records[0].wait_begin_ns, records[0].enqueue_ns);
    EXPECT_EQ(records[0].wait_end_ns, records[0].end_ns);
    EXPECT_GT(records[0].end_ns, records[0].start_ns);
  });
}

TEST(ShmBackend, SmallOnesOfABatchAreLeftToWhoWaitsAndTheRecordSaysSo) {
  run_ranks(2, [](ProcessGroup& group) {
    constexpr std::chrono::milliseconds kWork(20);
    const at::Tensor small = at::ones({1000});
    Work work = group.all_reduce(small, ReduceOp::sum, "small", Await::batch);
    std::this_thread::sleep_for(kWork);
    work.wait();
    EXPECT_EQ(small.sum().item<float>(), 2000);
    const auto records = group.take_records();
    ASSERT_EQ(records.size(), 1u);
    EXPECT_GE(records[0].start_ns - records[0].enqueue_ns, std::chrono::nanoseconds(kWork).count());
    EXPECT_LE(records[0].wait_begin_ns, records[0].start_ns);
  });
}

TEST(ShmBackend, ABatchThatHasAddedUpRunsOnTheThread) {
  run_ranks(2, [](ProcessGroup& group) {
    const at::Tensor large = group.allocate(1 << 18, at::kFloat);
    Work first = group.all_reduce(at::ones({10}), ReduceOp::sum, "small", Await::batch);
    Work second = group.all_reduce(large, ReduceOp::sum, "large", Await::batch);
    while (group.open_collectives().size() < 2 ||
           group.open_collectives()[1].find("nobody waited") == std::string::npos) {
      std::this_thread::yield();  // the test's time limit ends it otherwise
    }
    first.wait();
    second.wait();
  });
}

TEST(ShmBackend, MaxOfNanIsNan) {
  run_ranks(3, [](ProcessGroup& group) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (int place = 0; place < 3; ++place) {
        const at::Tensor tensor = at::full({5}, group.rank() == place ? NAN : 1.0, type);
        group.all_reduce(tensor, ReduceOp::max, "x").wait();
        EXPECT_TRUE(tensor.isnan().all().item<bool>());
      }
    }
  });
}

TEST(ShmBackend, ReusesMemoryThatAllRanksHaveReleased) {
  run_ranks(2, [](ProcessGroup& group) {
    at::Tensor kept = group.allocate(100, at::kFloat);
    for (int i = 0; i < 3 * ShmAllocations::kMost; ++i) {
      const at::Tensor tensor = group.allocate(1000 + i, at::kFloat);
      EXPECT_EQ(tensor.sum().item<float>(), 0.0F);
      tensor.fill_(1.0);
      group.all_reduce(tensor, ReduceOp::sum, "x").wait();
      EXPECT_EQ(tensor.sum().item<float>(), 2.0F * static_cast<float>(1000 + i));
    }
  });
}

TEST(ShmBackend, ARankMayReleaseBeforeAnother) {
  run_ranks(2, [](ProcessGroup& group) {
    at::Tensor first = group.allocate(100'000, at::kFloat);
    at::Tensor second = group.allocate(100'000, at::kFloat);
    if (group.rank() == 0) first.reset();
    at::Tensor third = group.allocate(100'000, at::kFloat);  // must not take the first's place
    const at::Tensor used = group.rank() == 0 ? second : first;
    used.fill_(1.0);
    third.fill_(5.0);
    group.all_reduce(used, ReduceOp::sum, "x").wait();
    EXPECT_TRUE(at::equal(used, at::full({100'000}, 2.0F)));
    EXPECT_TRUE(at::equal(third, at::full({100'000}, 5.0F)));
  });
}

TEST(ShmBackend, MoreMemoryThanThereIsIsAnErrorOnAllRanks) {
  std::vector<std::string> failures(2);
  EXPECT_THROW(run_ranks(2,
                         [&](ProcessGroup& group) {
                           failures[group.rank()] = test::error_of<std::exception>(
                               [&] { group.allocate(std::int64_t{1} << 45, at::kFloat); });
                         }),
               CommError);  // shutting down: after a failure nothing more can be sent
  for (const auto& failure : failures) {
    EXPECT_THAT(failure, HasSubstr("could not allocate memory"));
    EXPECT_THAT(failure, HasSubstr("MiB of shared memory, and the machine has"));
  }
}

TEST(ShmBackend, RefusesCallsOfC10dThatItCannotDo) {
  run_ranks(2, [](ProcessGroup& group) {
    EXPECT_THAT(test::error_of<std::exception>([&] {
                  std::vector<at::Tensor> tensors = {at::zeros({4})};
                  c10d::AllreduceOptions options;
                  options.reduceOp = c10d::ReduceOp::PRODUCT;
                  group.as_c10d()->allreduce(tensors, options)->wait();
                }),
                HasSubstr("sum, avg and max"));
    EXPECT_THAT(test::error_of<std::exception>([&] {
                  std::vector<at::Tensor> tensors = {at::zeros({4}), at::zeros({4})};
                  group.as_c10d()->broadcast(tensors)->wait();
                }),
                HasSubstr("one tensor a call"));
    group.barrier();  // nothing was sent: the group is as before
  });
}

TEST(ShmBackend, DifferentCallsAreAnErrorThatNamesBoth) {
  std::vector<std::string> failures(2);
  EXPECT_THROW(run_ranks(2,
                         [&](ProcessGroup& group) {
                           const at::Tensor tensor = at::zeros({100 + group.rank()});
                           failures[group.rank()] = test::error_of<std::exception>(
                               [&] { group.all_reduce(tensor, ReduceOp::sum, "mine").wait(); });
                         }),
               CommError);  // shutting down after it
  for (const auto& failure : failures) {
    EXPECT_THAT(failure, HasSubstr("the ranks called different collectives"));
    EXPECT_THAT(failure, HasSubstr("all_reduce of 400 bytes, sum of Float"));
    EXPECT_THAT(failure, HasSubstr("all_reduce of 404 bytes, sum of Float"));
    EXPECT_THAT(failure, HasSubstr("all_reduce 'mine'"));
  }
}

TEST(ShmBackend, TwoGroupsOfOneProcessDoNotMeet) {
  std::vector<std::thread> groups;
  for (int which = 0; which < 2; ++which) {
    groups.emplace_back([which] {
      run_ranks(2, [&](ProcessGroup& group) {
        const at::Tensor memory = group.allocate(10'000, at::kFloat);
        for (int round = 0; round < 300; ++round) {
          memory.fill_(which * 100.0 + group.rank());
          group.all_reduce(memory, ReduceOp::sum, "x").wait();
          ASSERT_TRUE(at::equal(memory, at::full({10'000}, which * 200.0F + 1.0F)));
        }
      });
    });
  }
  for (auto& group : groups) group.join();
}

}  // namespace
}  // namespace ddprun::shm_backend_test
