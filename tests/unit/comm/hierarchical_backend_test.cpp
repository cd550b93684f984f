// The hierarchical backend on emulated hosts against gloo between all ranks: every collective, type
// and operation, at odd sizes, in shared memory and outside of it.
#include "ddprun/comm/backends/hierarchical_backend.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "ddprun/base/error.h"
#include "ddprun/comm/backends/shm_reduce.h"
#include "support/error_of.h"
#include "support/matchers.h"
#include "support/reduced.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

using test::Places;
using test::values_of;
using test::Where;

const CommConfig kHierarchical = {.backend = BackendKind::hierarchical, .timeout_s = 60};

/// A rank with a group of either backend.
using Body = std::function<void(ProcessGroup& group, ProcessGroup& gloo)>;

void run_hosts(int hosts, int local_size, const Body& body) {
  const auto gloo_store = make_thread_store();
  test::run_hosts(
      hosts, local_size,
      [&](ProcessGroup& group) {
        at::set_num_threads(1);  // teams of threads would crowd the ranks out
        const auto gloo = connect_thread(gloo_store, group.rank(), group.size(),
                                         {.backend = BackendKind::gloo, .timeout_s = 60});
        ASSERT_EQ(group.backend_name(), "hierarchical");
        body(group, *gloo);
        gloo->shutdown();
      },
      kHierarchical);
}

/// Bit for bit for integers; floating-point sums are associated differently.
bool agree(const at::Tensor& a, const at::Tensor& b) {
  switch (a.scalar_type()) {
    case at::kDouble:
      return at::allclose(a, b, 1e-14, 0);
    case at::kFloat:
      return at::allclose(a, b, 1e-6, 0);
    case at::kBFloat16:
      return at::allclose(a, b, 0.02, 0);
    default:
      return at::equal(a, b);
  }
}

struct World {
  int hosts;
  int local_size;
  Where where;
};
void PrintTo(const World& world, std::ostream* out) {
  *out << world.hosts << "x" << world.local_size << "_" << name_of(world.where);
}

class Hierarchical : public testing::TestWithParam<World> {
 protected:
  static void run(const Body& body) { run_hosts(GetParam().hosts, GetParam().local_size, body); }
};
INSTANTIATE_TEST_SUITE_P(Hosts, Hierarchical,
                         testing::Values(World{2, 2, Where::outside}, World{2, 2, Where::shared},
                                         World{2, 2, Where::odd_ranks_shared},
                                         World{3, 2, Where::shared}, World{2, 3, Where::shared}),
                         testing::PrintToStringParamName());

const std::vector<std::int64_t> kCounts = {0, 1, 3, 17, 1000, 65'537, 150'001};
const std::vector<at::ScalarType> kTypes = {at::kFloat, at::kBFloat16, at::kDouble, at::kLong,
                                            at::kInt,   at::kByte,     at::kChar};

/// Calls `check` with every type, operation and count that the backend takes.
void for_all(
    const std::vector<at::ScalarType>& types,
    const std::function<void(at::ScalarType type, ReduceOp op, std::int64_t count)>& check) {
  for (const at::ScalarType type : types) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max}) {
      if (!can_reduce(type, op)) continue;
      for (const std::int64_t count : kCounts) {
        SCOPED_TRACE(std::to_string(count) + " of " + c10::toString(type) + ", operation " +
                     std::to_string(static_cast<int>(op)));
        check(type, op, count);
      }
    }
  }
}

TEST_P(Hierarchical, AllReduce) {
  run([](ProcessGroup& group, ProcessGroup& gloo) {
    const Places places(group, GetParam().where, 3'000'000);
    for_all(kTypes, [&](at::ScalarType type, ReduceOp op, std::int64_t count) {
      const at::Tensor values = values_of(group.rank(), count, type);
      const at::Tensor tensor = places.put(values);
      group.all_reduce(tensor, op, "x").wait();
      const at::Tensor right = values.clone();
      if (count > 0) gloo.all_reduce(right, op, "x").wait();
      EXPECT_TRUE(agree(tensor, right));
    });
  });
}

TEST_P(Hierarchical, ReduceScatter) {
  run([](ProcessGroup& group, ProcessGroup& gloo) {
    const Places places(group, GetParam().where, 10'000'000);
    for_all({at::kFloat, at::kBFloat16, at::kInt, at::kByte},
            [&](at::ScalarType type, ReduceOp op, std::int64_t count) {
              const at::Tensor values = values_of(group.rank(), count * group.size(), type);
              const at::Tensor input = places.put(values);
              const at::Tensor output = at::empty({count}, type);
              group.reduce_scatter(output, input, op, "x").wait();
              const at::Tensor whole = values.clone();
              if (count > 0) gloo.all_reduce(whole, op, "x").wait();
              EXPECT_TRUE(agree(output, whole.narrow(0, count * group.rank(), count)));
              EXPECT_TRUE(at::equal(input, values)) << "the input changed";
            });
  });
}

TEST_P(Hierarchical, AllGatherAndBroadcastOfAnyType) {
  run([](ProcessGroup& group, ProcessGroup&) {
    const Places places(group, GetParam().where, 10'000'000);
    for (const at::ScalarType type : {at::kFloat, at::kHalf, at::kBool, at::kLong}) {
      for (const std::int64_t count : kCounts) {
        SCOPED_TRACE(std::to_string(count) + " of " + c10::toString(type));
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

TEST_P(Hierarchical, TheSameBitsOnAllRanksAndInAllRuns) {
  constexpr std::int64_t kCount = 200'003;
  std::vector<at::Tensor> runs(2);
  for (auto& first : runs) {
    run([&](ProcessGroup& group, ProcessGroup&) {
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        const Places places(group, GetParam().where, 4 * kCount + 200);
        const at::Tensor tensor = places.put(values_of(group.rank(), kCount, type) / 7);
        group.all_reduce(tensor, ReduceOp::avg, "x").wait();
        const at::Tensor of_all = at::empty({kCount * group.size()}, type);
        group.all_gather(of_all, tensor, "x").wait();
        for (int rank = 0; rank < group.size(); ++rank) {
          EXPECT_TRUE(at::equal(of_all.narrow(0, rank * kCount, kCount), tensor)) << rank;
        }
        if (group.rank() == 0 && type == at::kFloat) first = tensor.clone();
      }
    });
  }
  EXPECT_TRUE(at::equal(runs[0], runs[1]));
}

TEST_P(Hierarchical, HundredsOfMixedCollectivesInFlight) {
  run([](ProcessGroup& group, ProcessGroup&) {
    constexpr std::int64_t kSize = 60'000;
    constexpr int kInFlight = 12;
    const at::Tensor memory = group.allocate(kInFlight * kSize, at::kInt);
    std::mt19937 random(7);  // the same choices on all ranks
    for (int round = 0; round < 40; ++round) {
      std::vector<Work> works;
      std::vector<std::pair<at::Tensor, at::Tensor>> results;  // what is there, what should be
      for (int i = 0; i < kInFlight; ++i) {
        const std::int64_t count = group.size() * (1 + random() % (random() % 9 == 0 ? 9000 : 50));
        at::Tensor tensor = memory.narrow(0, i * kSize, count);
        if (random() % 3 == 0) tensor = at::empty({count}, at::kInt);
        tensor.fill_(group.rank() + i);
        const int ranks = group.size();
        const int sum = ranks * (ranks - 1) / 2 + ranks * i;
        switch (random() % 3) {
          case 0:
            works.push_back(group.all_reduce(tensor, ReduceOp::sum, "x"));
            results.emplace_back(tensor, at::full({count}, sum, at::kInt));
            break;
          case 1: {
            const int root = static_cast<int>(random() % ranks);
            works.push_back(group.broadcast(tensor, root, "x"));
            results.emplace_back(tensor, at::full({count}, root + i, at::kInt));
            break;
          }
          default: {
            const at::Tensor part = at::empty({count / ranks}, at::kInt);
            works.push_back(group.reduce_scatter(part, tensor, ReduceOp::sum, "x"));
            results.emplace_back(part, at::full({count / ranks}, sum, at::kInt));
          }
        }
      }
      if (random() % 3 == 0) group.barrier();
      for (auto& work : works) work.wait();
      for (const auto& [got, right] : results) ASSERT_TRUE(at::equal(got, right));
    }
  });
}

TEST(HierarchicalBackend, C10dListsAndCoalescedCalls) {
  run_hosts(2, 2, [](ProcessGroup& group, ProcessGroup&) {
    std::vector<at::Tensor> tensors = {at::full({11}, group.rank() + 1.0),
                                       at::full({1}, group.rank(), at::kLong)};
    group.as_c10d()->allreduce_coalesced(tensors)->wait();
    EXPECT_TRUE(at::equal(tensors[0], at::full({11}, 10.0)));
    EXPECT_TRUE(at::equal(tensors[1], at::full({1}, 6, at::kLong)));
    std::vector<at::Tensor> input = {at::full({3}, group.rank() + 0.5)};
    std::vector<std::vector<at::Tensor>> outputs(1);
    for (int rank = 0; rank < 4; ++rank) outputs[0].push_back(at::zeros({3}));
    group.as_c10d()->allgather(outputs, input)->wait();
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_TRUE(at::equal(outputs[0][rank], at::full({3}, rank + 0.5)));
    }
  });
}

TEST(HierarchicalBackend, RefusesWhatItCannotDoInWords) {
  run_hosts(2, 2, [](ProcessGroup& group, ProcessGroup&) {
    const auto all_reduce = [&](at::ScalarType type, ReduceOp op) {
      return test::error_of<std::exception>(
          [&] { group.all_reduce(at::zeros({4}, type), op, "x"); });
    };
    EXPECT_THAT(all_reduce(at::kLong, ReduceOp::avg), HasSubstr("no avg of int64"));
    EXPECT_THAT(all_reduce(at::kHalf, ReduceOp::sum), HasSubstr("no reduction of float16"));
    group.barrier();  // nothing was sent: the group is as before
  });
}

TEST(HierarchicalBackend, DifferentCallsOnOneHostAreAnErrorThatNamesBoth) {
  std::vector<std::string> failures(4);
  EXPECT_THROW(test::run_hosts(2, 2,
                               [&](ProcessGroup& group) {
                                 const at::Tensor tensor =
                                     at::zeros({group.rank() == 3 ? 104 : 100});
                                 failures[group.rank()] = test::error_of<std::exception>([&] {
                                   group.all_reduce(tensor, ReduceOp::sum, "mine").wait();
                                 });
                               },
                               {.backend = BackendKind::hierarchical, .timeout_s = 3}),
               CommError);
  for (const int rank : {2, 3}) {
    EXPECT_THAT(failures[rank], HasSubstr("the ranks called different collectives: rank"));
    EXPECT_THAT(failures[rank], HasSubstr("rank 2 reduce_scatter of 200 bytes"));
    EXPECT_THAT(failures[rank], HasSubstr("rank 3 reduce_scatter of 208 bytes"));
  }
}

/// What rank 0 is told that it runs on, and why, if `claims` are those of the ranks.
std::string backend_of(const CommConfig& config, const std::vector<HostClaim>& claims) {
  const auto store = make_thread_store();
  std::string backend;
  test::run_threads(
      static_cast<int>(claims.size()),
      [&](int rank) {
        RankInfo info;
        info.rank = rank;
        info.world_size = static_cast<int>(claims.size());
        info.local_rank = claims[rank].local_rank;
        info.local_size = claims[rank].local_size;
        return connect_thread(store, info, config, claims[rank].host);
      },
      [&](ProcessGroup& group) {
        if (group.rank() == 0) backend = group.backend_name() + " (" + group.backend_reason() + ")";
      });
  return backend;
}

TEST(HierarchicalBackend, AutoSaysWhatItTakesAndWhy) {
  const CommConfig any{.timeout_s = 30};
  EXPECT_EQ(backend_of(any, {{"a", 0, 2}, {"a", 1, 2}, {"b", 0, 2}, {"b", 1, 2}}),
            "hierarchical (auto: 2 hosts of 2 ranks each)");
  EXPECT_EQ(backend_of(any, {{"a", 0, 1}, {"b", 0, 1}}),
            "gloo (auto: the ranks are on several hosts; backend hierarchical needs several ranks "
            "on each host: one rank on each)");
  EXPECT_THAT(backend_of(any, {{"a", 0, 2}, {"a", 1, 2}, {"b", 0, 1}}),
              HasSubstr("gloo (auto: the ranks are on several hosts; backend hierarchical needs as "
                        "many ranks on every host: 2 on the host of rank 0"));
}

TEST(HierarchicalBackend, WhatIsAskedForIsTakenOrRefused) {
  EXPECT_EQ(backend_of(kHierarchical, {{"a", 0, 2}, {"a", 1, 2}, {"b", 0, 2}, {"b", 1, 2}}),
            "hierarchical (asked for)");
  EXPECT_THROW(backend_of(kHierarchical, {{"a", 0, 2}, {"a", 1, 2}, {"b", 0, 1}}), ConfigError);
  EXPECT_THROW(backend_of(kHierarchical, {{"a", 0, 2}, {"a", 1, 2}}), ConfigError);
  EXPECT_THROW(backend_of(kHierarchical, {{"a", 0, 1}}), ConfigError);
}

}  // namespace
}  // namespace ddprun
