// The hierarchical backend on emulated hosts: when it is taken, and calls that differ.
// host_backends_test.cpp has what each collective computes.
#include "ddprun/comm/backends/hierarchical_backend.h"

#include <ATen/Functions.h>

#include "support/matchers.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

const CommConfig kHierarchical = {.backend = BackendKind::hierarchical, .timeout_s = 60};

TEST(HierarchicalBackend, DifferentCallsOnOneHostAreAnErrorThatNamesBoth) {
  std::vector<std::string> failures(4);
  EXPECT_THROW(test::run_hosts(
                   2, 2,
                   [&](ProcessGroup& group) {
                     const at::Tensor tensor = at::zeros({group.rank() == 3 ? 104 : 100});
                     failures[group.rank()] = test::error_of<std::exception>(
                         [&] { group.all_reduce(tensor, ReduceOp::sum, "mine").wait(); });
                   },
                   kHierarchical),
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
