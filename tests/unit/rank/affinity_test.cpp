// Pinning takes disjoint shares of the cores.
#include "ddprun/rank/affinity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <vector>

#include "ddprun/measure/environment.h"

namespace ddprun {
namespace {

/// In a thread of its own: affinity is a thread's.
std::vector<int> pinned(int local_rank, int local_size, std::vector<int>* actual = nullptr) {
  std::vector<int> cores;
  std::thread([&] {
    cores = pin_to_share(local_rank, local_size);
    if (actual != nullptr) *actual = usable_cores();
  }).join();
  return cores;
}

TEST(Affinity, SharesAreDisjointContiguousAndComplete) {
  const std::vector<int> all = usable_cores();
  ASSERT_FALSE(all.empty());
  for (int size = 1; size <= static_cast<int>(all.size()); ++size) {
    std::vector<int> joined;
    for (int rank = 0; rank < size; ++rank) {
      std::vector<int> actual;
      const std::vector<int> share = pinned(rank, size, &actual);
      EXPECT_FALSE(share.empty());
      EXPECT_EQ(actual, share) << "rank " << rank << " of " << size;
      joined.insert(joined.end(), share.begin(), share.end());
    }
    EXPECT_EQ(joined, all) << size << " ranks";
  }
}

TEST(Affinity, MoreRanksThanCoresShareThem) {
  const std::vector<int> all = usable_cores();
  const int count = static_cast<int>(all.size());
  for (int rank = 0; rank < count + 2; ++rank) {
    EXPECT_EQ(pinned(rank, count + 2), std::vector<int>{all[rank % count]});
  }
}

TEST(Affinity, RanksShareTheThreadsToo) {
  const int cores = static_cast<int>(usable_cores().size());
  for (const int size : {1, cores, 2 * cores}) {
    int threads = 0;
    std::thread([&] { threads = set_affinity({}, {.local_size = size}).threads; }).join();
    EXPECT_GE(threads, 1);
    EXPECT_LE(threads, std::max(1, cores / size)) << size << " ranks";
  }
}

TEST(AffinityDeathTest, CoresOfItsOwnAreNotShared) {
  const auto in_child = [] {
    keep_own_cores();
    const bool kept = pin_to_share(0, 2) == usable_cores() && pin_to_share(1, 2) == usable_cores();
    std::_Exit(kept ? 0 : 1);
  };
  EXPECT_EXIT(in_child(), testing::ExitedWithCode(0), "");
}

TEST(Affinity, ALaterRunInTheProcessHasTheSameShare) {
  std::vector<int> first, second;
  std::thread([&] {
    first = pin_to_share(0, 2);
    second = pin_to_share(0, 2);
  }).join();
  EXPECT_EQ(first, second) << "and not a share of the share";
}

TEST(Affinity, ThreadsStartedLaterInheritTheShare) {
  std::vector<int> share;
  std::vector<int> inherited;
  std::thread([&] {
    share = pin_to_share(0, static_cast<int>(usable_cores().size()));
    std::thread([&] { inherited = usable_cores(); }).join();
  }).join();
  EXPECT_EQ(inherited, share);
}

}  // namespace
}  // namespace ddprun
