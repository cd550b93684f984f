// The shm backend against a simple oracle: every collective, type and operation, at odd sizes, in
// shared memory and outside of it; bit for bit.
#include "ddprun/comm/backends/shm_backend.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "ddprun/base/error.h"
#include "ddprun/comm/backends/shm_reduce.h"
#include "support/error_of.h"
#include "support/matchers.h"
#include "support/reduced.h"
#include "support/thread_ranks.h"

namespace ddprun::shm_backend_test {
namespace {

using test::Places;
using test::values_of;
using test::Where;

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

at::Tensor expected(ReduceOp op, int ranks, std::int64_t count, at::ScalarType type, int seed = 0) {
  std::vector<at::Tensor> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(values_of(rank, count, type, seed));
  return test::reduced(op, all);
}

/// Elements around the sizes of cache lines, letters, slots and nothing.
const std::vector<std::int64_t> kCounts = {0,    1,    3,    17,     1000,   2048,
                                           2049, 8192, 8193, 65'536, 65'537, 150'001};
const std::vector<at::ScalarType> kTypes = {at::kFloat, at::kBFloat16, at::kDouble, at::kLong,
                                            at::kInt,   at::kByte,     at::kChar};

class Shm : public testing::TestWithParam<std::tuple<int, Where>> {
 protected:
  static int ranks() { return std::get<0>(GetParam()); }
  static Where where() { return std::get<1>(GetParam()); }
};
std::string name_of(const testing::TestParamInfo<std::tuple<int, Where>>& info) {
  return std::string(name_of(std::get<1>(info.param))) + "_" +
         std::to_string(std::get<0>(info.param));
}
INSTANTIATE_TEST_SUITE_P(Ranks, Shm,
                         testing::Combine(testing::Values(1, 2, 3, 4),
                                          testing::Values(Where::outside, Where::shared,
                                                          Where::odd_ranks_shared)),
                         name_of);

TEST_P(Shm, AllReduce) {
  run_ranks(ranks(), [&](ProcessGroup& group) {
    const Places places(group, where(), 3'000'000);
    for (const at::ScalarType type : kTypes) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max}) {
        if (!can_reduce(type, op)) continue;
        for (const std::int64_t count : kCounts) {
          const at::Tensor tensor = places.put(values_of(group.rank(), count, type));
          group.all_reduce(tensor, op, "x").wait();
          EXPECT_TRUE(at::equal(tensor, expected(op, ranks(), count, type)))
              << count << " of " << type << ", operation " << static_cast<int>(op);
        }
      }
    }
  });
}

TEST_P(Shm, ReduceScatter) {
  run_ranks(ranks(), [&](ProcessGroup& group) {
    const Places places(group, where(), 10'000'000);
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kByte}) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max}) {
        if (!can_reduce(type, op)) continue;
        for (const std::int64_t count : kCounts) {
          const at::Tensor values = values_of(group.rank(), count * ranks(), type);
          const at::Tensor input = places.put(values);
          const at::Tensor output = at::empty({count}, type);
          group.reduce_scatter(output, input, op, "x").wait();
          const at::Tensor whole = expected(op, ranks(), count * ranks(), type);
          EXPECT_TRUE(at::equal(output, whole.narrow(0, count * group.rank(), count)))
              << count << " of " << type << ", operation " << static_cast<int>(op);
          EXPECT_TRUE(at::equal(input, values)) << "the input changed";
        }
      }
    }
  });
}

TEST_P(Shm, AllGatherAndBroadcastOfAnyType) {
  run_ranks(ranks(), [&](ProcessGroup& group) {
    const Places places(group, where(), 3'000'000);
    for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBool, at::kLong}) {
      for (const std::int64_t count : kCounts) {
        const at::Tensor input = places.put(values_of(group.rank(), count, type));
        const at::Tensor all = at::empty({count * ranks()}, type);
        group.all_gather(all, input, "x").wait();
        for (int rank = 0; rank < ranks(); ++rank) {
          EXPECT_TRUE(at::equal(all.narrow(0, rank * count, count), values_of(rank, count, type)));
        }
        for (int root = 0; root < ranks(); ++root) {
          const at::Tensor sent = places.put(values_of(group.rank(), count, type));
          group.broadcast(sent, root, "x").wait();
          EXPECT_TRUE(at::equal(sent, values_of(root, count, type)))
              << count << " of " << type << " from " << root;
        }
      }
    }
  });
}

TEST_P(Shm, TheBitsDependOnNothingButTheValues) {
  run_ranks(ranks(), [&](ProcessGroup& group) {
    constexpr std::int64_t kCount = 200'003;
    const Places places(group, where(), 4 * kCount + 200);
    const at::Tensor whole = places.put(values_of(group.rank(), kCount, at::kFloat) / 7);
    const at::Tensor pieces = whole.clone();
    group.all_reduce(whole, ReduceOp::sum, "whole").wait();
    for (std::int64_t begin = 0; begin < kCount; begin += 7'001) {
      const auto size = std::min<std::int64_t>(7'001, kCount - begin);
      group.all_reduce(pieces.narrow(0, begin, size), ReduceOp::sum, "piece").wait();
    }
    EXPECT_TRUE(at::equal(whole, pieces));
    const at::Tensor of_all = at::empty({kCount * ranks()});
    group.all_gather(of_all, whole, "x").wait();
    for (int rank = 0; rank < ranks(); ++rank) {
      EXPECT_TRUE(at::equal(of_all.narrow(0, rank * kCount, kCount), whole)) << "rank " << rank;
    }
  });
}

TEST_P(Shm, ThousandsOfMixedCollectivesInFlight) {
  run_ranks(ranks(), [&](ProcessGroup& group) {
    constexpr int kRounds = 150;
    constexpr int kInFlight = 20;
    const at::Tensor memory = group.allocate(kInFlight * 100'000, at::kFloat);
    std::mt19937 random(7);  // the same choices on all ranks
    for (int round = 0; round < kRounds; ++round) {
      std::vector<Work> works;
      std::vector<at::Tensor> tensors;
      for (int i = 0; i < kInFlight; ++i) {
        const std::int64_t count = random() % 50 == 0 ? 100'000 : 1 + random() % 300;
        const bool shared = where() == Where::shared || random() % 2 == 0;
        at::Tensor tensor = shared ? memory.narrow(0, i * 100'000, count) : at::empty({count});
        tensor.copy_(values_of(group.rank(), count, at::kFloat, i));
        const auto await = static_cast<Await>(random() % 3);
        works.push_back(group.all_reduce(tensor, ReduceOp::sum, "x", await));
        if (await == Await::next) works.back().wait();
        tensors.push_back(tensor);
      }
      if (random() % 3 == 0) group.barrier();
      for (auto& work : works) work.wait();
      const int i = static_cast<int>(random() % kInFlight);
      ASSERT_TRUE(at::equal(tensors[i],
                            expected(ReduceOp::sum, ranks(), tensors[i].numel(), at::kFloat, i)));
    }
  });
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

/// A rank that comes early must not write its next data over those that a late one still reads.
TEST_P(Shm, SmallCollectivesInALoop) {
  run_ranks(ranks(), [&](ProcessGroup& group) {
    const Places places(group, where(), 1'000'000);
    for (int round = 0; round < 3000; ++round) {
      const auto mine = static_cast<float>(group.rank() + round);
      const at::Tensor tensor = places.put(at::full({1 + 7 * (round % 280)}, mine));
      group.all_reduce(tensor, ReduceOp::max, "x", Await::next).wait();
      const auto wanted = static_cast<float>(ranks() - 1 + round);
      const float* const data = tensor.const_data_ptr<float>();
      ASSERT_EQ(std::count(data, data + tensor.numel(), wanted), tensor.numel()) << round;
    }
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

TEST(ShmBackend, BothSlicesOfOneTensorGatherInPlace) {
  run_ranks(2, [](ProcessGroup& group) {
    const at::Tensor memory = group.allocate(2'000'000, at::kFloat);
    const at::Tensor mine = memory.narrow(0, group.rank() * 1'000'000, 1'000'000);
    mine.copy_(values_of(group.rank(), 1'000'000, at::kFloat));
    group.all_gather(memory, mine, "x").wait();
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_TRUE(at::equal(memory.narrow(0, rank * 1'000'000, 1'000'000),
                            values_of(rank, 1'000'000, at::kFloat)));
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

TEST(ShmBackend, RefusesWhatItCannotDoInWords) {
  run_ranks(2, [](ProcessGroup& group) {
    const auto all_reduce = [&](at::ScalarType type, ReduceOp op) {
      return test::error_of<std::exception>(
          [&] { group.all_reduce(at::zeros({4}, type), op, "x"); });
    };
    EXPECT_THAT(all_reduce(at::kLong, ReduceOp::avg), HasSubstr("no avg of int64"));
    EXPECT_THAT(all_reduce(at::kHalf, ReduceOp::sum), HasSubstr("no reduction of float16"));
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

TEST(ShmBackend, C10dListsAndCoalescedCalls) {
  run_ranks(3, [](ProcessGroup& group) {
    std::vector<at::Tensor> tensors = {at::full({10}, group.rank() + 1.0),
                                       at::full({7}, group.rank(), at::kLong)};
    group.as_c10d()->allreduce_coalesced(tensors)->wait();
    EXPECT_TRUE(at::equal(tensors[0], at::full({10}, 6.0)));
    EXPECT_TRUE(at::equal(tensors[1], at::full({7}, 3, at::kLong)));
  });
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
