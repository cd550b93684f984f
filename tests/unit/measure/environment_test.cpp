// The environment's facts are there, pinning takes disjoint shares, peak memory counts.
#include "ddprun/measure/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <thread>

namespace ddprun {
namespace {

TEST(Environment, EveryFactHasAValue) {
  const auto facts = describe_environment();
  std::vector<std::string> names;
  for (const auto& [name, value] : facts) {
    names.push_back(name);
    EXPECT_FALSE(value.empty()) << name;
  }
  EXPECT_THAT(names, testing::ElementsAre("cpu", "cores", "simd", "products", "float32 products",
                                          "memory", "kernel", "hostname", "torch", "gloo",
                                          "compiler", "build", "ddprun", "time"));
  EXPECT_THAT(facts[5].second, testing::ContainsRegex("^[0-9]+\\.[0-9] GiB$"));
  EXPECT_THAT(facts[8].second, testing::ContainsRegex("^[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(facts[13].second,
              testing::ContainsRegex("^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"));
}

/// In a thread of its own: affinity is a thread's.
std::vector<int> pinned(int local_rank, int local_size, std::vector<int>* actual = nullptr) {
  std::vector<int> cores;
  std::thread([&] {
    cores = pin_to_share(local_rank, local_size);
    if (actual != nullptr) *actual = usable_cores();
  }).join();
  return cores;
}

TEST(Environment, SharesAreDisjointContiguousAndComplete) {
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

TEST(Environment, MoreRanksThanCoresShareThem) {
  const std::vector<int> all = usable_cores();
  const int count = static_cast<int>(all.size());
  for (int rank = 0; rank < count + 2; ++rank) {
    EXPECT_EQ(pinned(rank, count + 2), std::vector<int>{all[rank % count]});
  }
}

TEST(Environment, ThreadsStartedLaterInheritTheShare) {
  std::vector<int> share;
  std::vector<int> inherited;
  std::thread([&] {
    share = pin_to_share(0, static_cast<int>(usable_cores().size()));
    std::thread([&] { inherited = usable_cores(); }).join();
  }).join();
  EXPECT_EQ(inherited, share);
}

TEST(Environment, PeakResidentGrowsWithUse) {
  const std::int64_t before = peak_resident_bytes();
  EXPECT_GT(before, 1 << 20);
  constexpr std::size_t kBytes = 256u << 20;
  std::vector<char> memory(kBytes, 1);
  EXPECT_EQ(std::count(memory.begin(), memory.end(), 1), static_cast<std::ptrdiff_t>(kBytes));
  EXPECT_GT(peak_resident_bytes(), before + (100 << 20));
}

}  // namespace
}  // namespace ddprun
