// The backends that share memory within a host against a simple oracle, shm on one host and
// hierarchical on several: every collective, type and operation, at odd sizes, in shared memory and
// outside of it.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <random>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "ddprun/comm/backends/shm_reduce.h"
#include "support/matchers.h"
#include "support/reduced.h"
#include "support/thread_ranks.h"

namespace ddprun::host_backends_test {
namespace {

using test::Places;
using test::values_of;
using test::Where;

struct World {
  int hosts;  ///< that the ranks seem to be on
  int local_size;
  Where where;
};
void PrintTo(const World& world, std::ostream* out) {
  *out << world.hosts << "x" << world.local_size << "_" << name_of(world.where);
}

std::vector<World> worlds() {
  std::vector<World> all = {{2, 2, Where::outside},
                            {2, 2, Where::shared},
                            {2, 2, Where::odd_ranks_shared},
                            {3, 2, Where::shared},
                            {2, 3, Where::shared}};
  for (const int ranks : {1, 2, 3, 4}) {
    for (const Where where : {Where::outside, Where::shared, Where::odd_ranks_shared}) {
      all.push_back({1, ranks, where});
    }
  }
  return all;
}

/// Elements around the sizes of cache lines, letters, slots and nothing.
const std::vector<std::int64_t> kCounts = {0,    1,    3,    17,     1000,   2048,
                                           2049, 8192, 8193, 65'536, 65'537, 150'001};
const std::vector<std::int64_t> kSomeCounts = {0, 1, 3, 17, 1000, 65'537, 150'001};

class HostBackends : public testing::TestWithParam<World> {
 protected:
  static bool on_one_host() { return GetParam().hosts == 1; }
  static Where where() { return GetParam().where; }
  /// Collectives between hosts take many times as long.
  static const std::vector<std::int64_t>& counts() { return on_one_host() ? kCounts : kSomeCounts; }

  static void run(const std::function<void(ProcessGroup&)>& body) {
    const BackendKind backend = on_one_host() ? BackendKind::shm : BackendKind::hierarchical;
    test::run_hosts(GetParam().hosts, GetParam().local_size,
                    [&](ProcessGroup& group) {
                      at::set_num_threads(1);  // teams of threads would crowd the ranks out
                      ASSERT_EQ(group.backend_name(), name_of(backend));
                      body(group);
                    },
                    {.backend = backend, .timeout_s = 60});
  }

  /// Calls `check` with every type, operation and count that the backend takes.
  static void for_all(
      const std::vector<at::ScalarType>& types,
      const std::function<void(at::ScalarType type, ReduceOp op, std::int64_t count)>& check) {
    for (const at::ScalarType type : types) {
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max}) {
        if (!can_reduce(type, op)) continue;
        for (const std::int64_t count : counts()) {
          SCOPED_TRACE(testing::Message()
                       << count << " of " << type << ", operation " << static_cast<int>(op));
          check(type, op, count);
        }
      }
    }
  }

  static at::Tensor expected(ReduceOp op, int ranks, std::int64_t count, at::ScalarType type) {
    std::vector<at::Tensor> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(values_of(rank, count, type));
    return test::reduced(op, all);
  }

  /// Bit for bit; between hosts floating-point sums are associated differently.
  static bool agree(const at::Tensor& got, const at::Tensor& right) {
    if (on_one_host() || !at::isFloatingType(got.scalar_type())) return at::equal(got, right);
    const double rounding = got.scalar_type() == at::kDouble  ? 1e-14
                            : got.scalar_type() == at::kFloat ? 1e-6
                                                              : 0.02;
    return at::allclose(got, right, rounding, 0);
  }
};
INSTANTIATE_TEST_SUITE_P(Worlds, HostBackends, testing::ValuesIn(worlds()),
                         testing::PrintToStringParamName());

TEST_P(HostBackends, AllReduce) {
  run([](ProcessGroup& group) {
    const Places places(group, where(), 3'000'000);
    for_all({at::kFloat, at::kBFloat16, at::kDouble, at::kLong, at::kInt, at::kByte, at::kChar},
            [&](at::ScalarType type, ReduceOp op, std::int64_t count) {
              const at::Tensor tensor = places.put(values_of(group.rank(), count, type));
              group.all_reduce(tensor, op, "x").wait();
              EXPECT_TRUE(agree(tensor, expected(op, group.size(), count, type)));
            });
  });
}

TEST_P(HostBackends, ReduceScatter) {
  run([](ProcessGroup& group) {
    const Places places(group, where(), 10'000'000);
    for_all({at::kFloat, at::kBFloat16, at::kInt, at::kByte},
            [&](at::ScalarType type, ReduceOp op, std::int64_t count) {
              const at::Tensor values = values_of(group.rank(), count * group.size(), type);
              const at::Tensor input = places.put(values);
              const at::Tensor output = at::empty({count}, type);
              group.reduce_scatter(output, input, op, "x").wait();
              const at::Tensor whole = expected(op, group.size(), count * group.size(), type);
              EXPECT_TRUE(agree(output, whole.narrow(0, count * group.rank(), count)));
              EXPECT_TRUE(at::equal(input, values)) << "the input changed";
            });
  });
}

TEST_P(HostBackends, AllGatherAndBroadcastOfAnyType) {
  run([](ProcessGroup& group) {
    const Places places(group, where(), 10'000'000);
    for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBool, at::kLong}) {
      for (const std::int64_t count : counts()) {
        SCOPED_TRACE(testing::Message() << count << " of " << type);
        const at::Tensor input = places.put(values_of(group.rank(), count, type));
        const at::Tensor all = at::empty({count * group.size()}, type);
        group.all_gather(all, input, "x").wait();
        // In place, every rank's slice of one tensor.
        const at::Tensor whole = places.put(at::zeros({count * group.size()}, type));
        const at::Tensor mine = whole.narrow(0, count * group.rank(), count);
        mine.copy_(values_of(group.rank(), count, type));
        group.all_gather(whole, mine, "x").wait();
        for (int rank = 0; rank < group.size(); ++rank) {
          const at::Tensor right = values_of(rank, count, type);
          EXPECT_TRUE(at::equal(all.narrow(0, rank * count, count), right));
          EXPECT_TRUE(at::equal(whole.narrow(0, rank * count, count), right));
        }
        for (int root = 0; root < group.size(); ++root) {
          const at::Tensor sent = places.put(values_of(group.rank(), count, type));
          group.broadcast(sent, root, "x").wait();
          EXPECT_TRUE(at::equal(sent, values_of(root, count, type))) << "from " << root;
        }
      }
    }
  });
}

TEST_P(HostBackends, TheBitsDependOnNothingButTheValues) {
  constexpr std::int64_t kCount = 200'003, kPiece = 7'001;
  std::vector<at::Tensor> runs(2);  // rank 0's
  for (at::Tensor& of_run : runs) {
    run([&](ProcessGroup& group) {
      for (const at::ScalarType type : {at::kBFloat16, at::kFloat}) {
        const Places places(group, where(), 4 * kCount + 200);
        const at::Tensor whole = places.put(values_of(group.rank(), kCount, type) / 7);
        const at::Tensor pieces = whole.clone();
        group.all_reduce(whole, ReduceOp::avg, "whole").wait();
        const at::Tensor of_all = at::empty({kCount * group.size()}, type);
        group.all_gather(of_all, whole, "x").wait();
        for (int rank = 0; rank < group.size(); ++rank) {
          EXPECT_TRUE(at::equal(of_all.narrow(0, rank * kCount, kCount), whole)) << rank;
        }
        if (group.rank() == 0) of_run = whole.clone();
        if (!on_one_host()) continue;  // other hosts add other parts of a piece first
        for (std::int64_t begin = 0; begin < kCount; begin += kPiece) {
          const auto size = std::min(kPiece, kCount - begin);
          group.all_reduce(pieces.narrow(0, begin, size), ReduceOp::avg, "piece").wait();
        }
        EXPECT_TRUE(at::equal(whole, pieces));
      }
    });
  }
  EXPECT_TRUE(at::equal(runs[0], runs[1]));
}

TEST_P(HostBackends, ThousandsOfMixedCollectivesInFlight) {
  run([](ProcessGroup& group) {
    constexpr std::int64_t kSize = 100'000;
    constexpr int kInFlight = 20;
    const int rounds = on_one_host() ? 100 : 15, ranks = group.size();
    const at::Tensor memory = group.allocate(kInFlight * kSize, at::kInt);
    std::mt19937 random(7);  // the same choices on all ranks
    for (int round = 0; round < rounds; ++round) {
      std::vector<Work> works;
      std::vector<std::pair<at::Tensor, at::Tensor>> results;  // what is there, what should be
      for (int i = 0; i < kInFlight; ++i) {
        const std::int64_t count = ranks * (1 + random() % (random() % 20 == 0 ? 15'000 : 100));
        at::Tensor tensor = memory.narrow(0, i * kSize, count);
        if (random() % 3 == 0) tensor = at::empty({count}, at::kInt);
        const at::Tensor values = at::arange(i, i + count, at::kInt);
        tensor.copy_(values + group.rank());
        const at::Tensor sum = values * ranks + ranks * (ranks - 1) / 2;
        const auto await = static_cast<Await>(random() % 3);
        switch (random() % 3) {
          case 0:
            works.push_back(group.all_reduce(tensor, ReduceOp::sum, "x", await));
            results.emplace_back(tensor, sum);
            break;
          case 1: {
            const int root = static_cast<int>(random() % ranks);
            works.push_back(group.broadcast(tensor, root, "x", await));
            results.emplace_back(tensor, values + root);
            break;
          }
          default: {
            const std::int64_t part = count / ranks;
            const at::Tensor own = at::empty({part}, at::kInt);
            works.push_back(group.reduce_scatter(own, tensor, ReduceOp::sum, "x", await));
            results.emplace_back(own, sum.narrow(0, part * group.rank(), part));
          }
        }
        if (await == Await::next) works.back().wait();
      }
      if (random() % 3 == 0) group.barrier();
      for (auto& work : works) work.wait();
      for (const auto& [got, right] : results) ASSERT_TRUE(at::equal(got, right)) << round;
    }
  });
}

/// A rank that comes early must not write its next data over those that a late one still reads.
TEST_P(HostBackends, SmallCollectivesInALoop) {
  run([](ProcessGroup& group) {
    const Places places(group, where(), 1'000'000);
    const int rounds = on_one_host() ? 1000 : 50;
    for (int round = 0; round < rounds; ++round) {
      const auto mine = static_cast<float>(group.rank() + round);
      const at::Tensor tensor = places.put(at::full({1 + 7 * (round % 280)}, mine));
      group.all_reduce(tensor, ReduceOp::max, "x", Await::next).wait();
      const auto wanted = static_cast<float>(group.size() - 1 + round);
      const float* const data = tensor.const_data_ptr<float>();
      ASSERT_EQ(std::count(data, data + tensor.numel(), wanted), tensor.numel()) << round;
    }
  });
}

TEST_P(HostBackends, C10dListsAndCoalescedCalls) {
  run([](ProcessGroup& group) {
    const int ranks = group.size();
    std::vector<at::Tensor> tensors = {at::full({11}, group.rank() + 1.0),
                                       at::full({7}, group.rank(), at::kLong)};
    group.as_c10d()->allreduce_coalesced(tensors)->wait();
    EXPECT_TRUE(at::equal(tensors[0], at::full({11}, ranks * (ranks + 1) / 2.0)));
    EXPECT_TRUE(at::equal(tensors[1], at::full({7}, ranks * (ranks - 1) / 2, at::kLong)));
    std::vector<at::Tensor> input = {at::full({3}, group.rank() + 0.5)};
    std::vector<std::vector<at::Tensor>> outputs(1);
    for (int rank = 0; rank < ranks; ++rank) outputs[0].push_back(at::zeros({3}));
    group.as_c10d()->allgather(outputs, input)->wait();
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_TRUE(at::equal(outputs[0][rank], at::full({3}, rank + 0.5)));
    }
  });
}

TEST_P(HostBackends, RefusesWhatItCannotDoInWords) {
  run([](ProcessGroup& group) {
    const auto all_reduce = [&](at::ScalarType type, ReduceOp op) {
      return test::error_of<std::exception>(
          [&] { group.all_reduce(at::zeros({4}, type), op, "x"); });
    };
    EXPECT_THAT(all_reduce(at::kLong, ReduceOp::avg), HasSubstr("no avg of int64"));
    EXPECT_THAT(all_reduce(at::kHalf, ReduceOp::sum), HasSubstr("no reduction of float16"));
    group.barrier();  // nothing was sent: the group is as before
  });
}

}  // namespace
}  // namespace ddprun::host_backends_test
