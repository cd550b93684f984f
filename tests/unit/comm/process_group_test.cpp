// Every collective at one to four ranks against the expected values.
#include "ddprun/comm/group/process_group.h"

#include <ATen/Functions.h>
#include <sched.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <tuple>

#include "ddprun/comm/store/all_gather_object.h"
#include "support/matchers.h"
#include "support/reduced.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

using test::run_ranks;

/// Integers, so that sums are exact in any order.
at::Tensor values_of(int rank, std::int64_t count) {
  return test::values_of(rank, count, at::kInt).to(at::kFloat);
}

at::Tensor expected(ReduceOp op, int ranks, std::int64_t count) {
  std::vector<at::Tensor> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(values_of(rank, count));
  return test::reduced(op, all);
}

/// A backend and a number of ranks.
class Ranks : public testing::TestWithParam<std::tuple<BackendKind, int>> {
 protected:
  static int count() { return std::get<1>(GetParam()); }
  static void run(const std::function<void(ProcessGroup&)>& body) {
    run_ranks(count(), body, {.backend = std::get<0>(GetParam()), .timeout_s = 30});
  }
};
INSTANTIATE_TEST_SUITE_P(Count, Ranks,
                         testing::Combine(testing::Values(BackendKind::gloo, BackendKind::shm),
                                          testing::Values(1, 2, 3, 4)),
                         [](const auto& info) {
                           return std::string(name_of(std::get<0>(info.param))) + "_" +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST_P(Ranks, EveryCollectiveAtOddSizesInPlaceAndOutOfPlace) {
  run([](ProcessGroup& group) {
    const auto slice = [&](const at::Tensor& whole) {
      return whole.chunk(group.size())[group.rank()];
    };
    for (const std::int64_t count : {1, 7, 1000, 30'001}) {
      SCOPED_TRACE(count);
      const at::Tensor mine = values_of(group.rank(), count);
      const at::Tensor values = values_of(group.rank(), count * group.size());
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max}) {
        const at::Tensor whole = values.clone(), input = values.clone();
        group.all_reduce(whole, op, "x").wait();
        EXPECT_TRUE(at::equal(whole, expected(op, group.size(), count * group.size())));
        const at::Tensor output = at::full({count}, -1.0f);
        group.reduce_scatter(output, input, op, "x").wait();
        EXPECT_TRUE(at::equal(output, slice(whole)));
        EXPECT_TRUE(at::equal(input, values)) << "the input changed";
        group.reduce_scatter(slice(input), input, op, "in place").wait();
        EXPECT_TRUE(at::equal(slice(input), slice(whole)));
      }
      const at::Tensor all = at::full({count * group.size()}, -1.0f), in_place = all.clone();
      group.all_gather(all, mine, "x").wait();
      slice(in_place).copy_(mine);
      group.all_gather(in_place, slice(in_place), "in place").wait();
      EXPECT_TRUE(at::equal(in_place, all));
      for (int rank = 0; rank < group.size(); ++rank) {
        const at::Tensor sent = mine.clone();
        group.broadcast(sent, rank, "x").wait();
        EXPECT_TRUE(at::equal(sent, values_of(rank, count)));
        EXPECT_TRUE(at::equal(all.narrow(0, count * rank, count), sent));
      }
    }
  });
}

TEST_P(Ranks, BarrierWaitsForTheLast) {
  std::atomic<int> arrived = 0;
  const int ranks = count();
  run([&](ProcessGroup& group) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20 * group.rank()));
    ++arrived;
    group.barrier();
    EXPECT_EQ(arrived, ranks);
  });
}

TEST_P(Ranks, AllGatherObjectGivesTextsInRankOrder) {
  run([](ProcessGroup& group) {
    for (int round = 0; round < 50; ++round) {
      const auto texts = group.all_gather_object("round " + std::to_string(round) + " of " +
                                                 std::to_string(group.rank()));
      ASSERT_EQ(texts.size(), static_cast<std::size_t>(group.size()));
      for (int rank = 0; rank < group.size(); ++rank) {
        EXPECT_EQ(texts[rank], "round " + std::to_string(round) + " of " + std::to_string(rank));
      }
    }
    EXPECT_EQ(group.all_gather_object(""),
              std::vector<std::string>(static_cast<std::size_t>(group.size())));
    EXPECT_TRUE(group.take_records().empty()) << "messages are no collectives";
  });
}

TEST(AllGatherObject, LeavesNoKeyInTheStore) {
  const auto store = make_thread_store();
  const std::string text(9'000'000, 'x');
  std::thread rank_1([&] {
    EXPECT_EQ(all_gather_object(*store, "round", 1, 2, text, std::chrono::seconds(30)).at(0), "");
  });
  EXPECT_EQ(all_gather_object(*store, "round", 0, 2, "", std::chrono::seconds(30)).at(1), text);
  rank_1.join();
  EXPECT_EQ(store->getNumKeys(), 0);
}

TEST_P(Ranks, ManyUnderWayAtOnce) {
  run([](ProcessGroup& group) {
    std::vector<at::Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < 200; ++i) {
      tensors.push_back(values_of(group.rank(), i + 1));
      works.push_back(group.all_reduce(tensors.back(), ReduceOp::avg, std::to_string(i)));
    }
    for (auto work = works.rbegin(); work != works.rend(); ++work) work->wait();
    for (int i = 0; i < 200; ++i) {
      EXPECT_TRUE(at::equal(tensors[i], expected(ReduceOp::avg, group.size(), i + 1)));
    }
    const auto records = group.take_records();
    ASSERT_EQ(records.size(), 200U);
    for (int i = 0; i < 200; ++i) EXPECT_EQ(records[i].label, std::to_string(i));
  });
}

TEST(ProcessGroup, AverageDividesOnceHoweverManyWait) {
  run_ranks(3, [](ProcessGroup& group) {
    const at::Tensor tensor = values_of(group.rank(), 4096);
    Work work = group.all_reduce(tensor, ReduceOp::avg, "x");
    std::vector<std::thread> waiters;
    for (int i = 0; i < 4; ++i) waiters.emplace_back([copy = work]() mutable { copy.wait(); });
    work.wait();
    Work again = work;
    again.wait();
    for (auto& waiter : waiters) waiter.join();
    EXPECT_TRUE(at::equal(tensor, expected(ReduceOp::avg, 3, 4096)));
  });
}

TEST(ProcessGroup, AnEmptyWorkIsDone) {
  Work work;
  work.wait();
}

TEST(ProcessGroup, ReducesALeafThatRequiresGradAndABfloat16Tensor) {
  run_ranks(2, [](ProcessGroup& group) {
    const at::Tensor leaf = values_of(group.rank(), 10).requires_grad_(true);
    group.all_reduce(leaf, ReduceOp::avg, "leaf").wait();
    EXPECT_TRUE(at::equal(leaf.detach(), expected(ReduceOp::avg, 2, 10)));
    const at::Tensor half = at::full({64}, group.rank() + 1.0, at::kBFloat16);
    group.all_reduce(half, ReduceOp::avg, "half").wait();
    EXPECT_TRUE(at::equal(half, at::full({64}, 1.5, at::kBFloat16)));
  });
}

TEST(ProcessGroup, IsClosedAfterShutdown) {
  for (const BackendKind backend : {BackendKind::gloo, BackendKind::shm}) {
    const auto group = connect_thread(make_thread_store(), 0, 1, {.backend = backend});
    EXPECT_EQ(group->backend_name(), name_of(backend));
    EXPECT_EQ(group->backend_reason(), "asked for");
    group->shutdown();
    const at::Tensor tensor = at::zeros({1});
    EXPECT_THROW(group->all_reduce(tensor, ReduceOp::sum, "x"), CommError);
    EXPECT_EQ(group->backend_name(), name_of(backend));
  }
}

TEST(ProcessGroup, AutoTakesSharedMemoryOnOneHostAndSaysSo) {
  run_ranks(2, [](ProcessGroup& group) {
    EXPECT_EQ(group.backend_name(), "shm");
    EXPECT_EQ(group.backend_reason(), "auto: all ranks (2) are on this host");
  });
}

/// How many of this process's threads are scheduled by that policy.
int threads_with(int policy) {
  int found = 0;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    found += ::sched_getscheduler(std::stoi(thread.path().filename())) == policy ? 1 : 0;
  }
  return found;
}

TEST(ProcessGroup, ThreadsOfGlooDoNotTakeACoreFromEachOther) {
  run_ranks(2,
            [](ProcessGroup& group) {
              group.barrier("both are there");
              EXPECT_GE(threads_with(SCHED_BATCH), 4)
                  << "an event thread and a worker of each rank";
              EXPECT_EQ(::sched_getscheduler(0), SCHED_OTHER) << "the rank's own thread";
              group.barrier("both have looked");
            },
            {.backend = BackendKind::gloo, .timeout_s = 30});
  while (threads_with(SCHED_BATCH) > 0) {  // the kernel lists a thread for a moment after its end
    std::this_thread::yield();
  }
}

TEST_P(Ranks, AllocatesZeroedMemoryThatOutlivesTheGroup) {
  std::vector<at::Tensor> kept(static_cast<std::size_t>(count()));
  run([&](ProcessGroup& group) {
    for (const std::int64_t elements : {0, 1, 1000, 3'000'000}) {
      const at::Tensor tensor = group.allocate(elements, at::kFloat);
      EXPECT_EQ(tensor.sizes(), at::IntArrayRef({elements}));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % 64, 0);
      EXPECT_TRUE(at::equal(tensor, at::zeros({elements})));
      tensor.fill_(group.rank() + 1.0);
      group.all_reduce(tensor, ReduceOp::max, "x").wait();
      kept[group.rank()] = tensor;
    }
  });
  for (const auto& tensor : kept) {
    EXPECT_TRUE(at::equal(tensor, at::full({3'000'000}, static_cast<float>(count()))));
  }
}

TEST(ProcessGroup, WireBytes) {
  EXPECT_EQ(wire_bytes(CollectiveKind::all_reduce, 1000, 1), 0.0);
  EXPECT_EQ(wire_bytes(CollectiveKind::all_reduce, 1000, 2), 1000.0);
  EXPECT_EQ(wire_bytes(CollectiveKind::all_reduce, 1000, 4), 1500.0);
  EXPECT_EQ(wire_bytes(CollectiveKind::reduce_scatter, 1000, 4), 750.0);
  EXPECT_EQ(wire_bytes(CollectiveKind::all_gather, 1000, 4), 750.0);
  EXPECT_EQ(wire_bytes(CollectiveKind::broadcast, 1000, 4), 1000.0);
  EXPECT_EQ(wire_bytes(CollectiveKind::broadcast, 1000, 1), 0.0);
  EXPECT_EQ(wire_bytes(CollectiveKind::barrier, 0, 4), 0.0);
  EXPECT_STREQ(name_of(CollectiveKind::reduce_scatter), "reduce_scatter");
}

}  // namespace
}  // namespace ddprun
