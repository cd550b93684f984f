// Who of the ranks takes which tensor.
#include "ddprun/checkpoint/shared_tensors.h"

#include <algorithm>
#include <numeric>

#include "support/matchers.h"

namespace ddprun {
namespace {

TEST(Balanced, TheLargestGoToDifferentRanks) {
  EXPECT_THAT(balanced({9, 1, 10, 1, 1}, 2), ElementsAre(1, 1, 0, 0, 1));
}

TEST(Balanced, OneRankTakesAll) { EXPECT_THAT(balanced({3, 0, 2}, 1), ElementsAre(0, 0, 0)); }

TEST(Balanced, NoRankHasMoreThanTheMeanAndOneTensor) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i < 100; ++i) sizes.push_back(i * i % 101 * 1'000'000'000);
  const std::int64_t sum = std::reduce(sizes.begin(), sizes.end());
  for (const int ranks : {2, 3, 7}) {
    const std::vector<int> takers = balanced(sizes, ranks);
    std::vector<std::int64_t> sums(static_cast<std::size_t>(ranks));
    for (std::size_t i = 0; i < sizes.size(); ++i) sums[takers[i]] += sizes[i];
    EXPECT_LE(*std::ranges::max_element(sums), sum / ranks + 100'000'000'000);
    EXPECT_EQ(std::reduce(sums.begin(), sums.end()), sum);
  }
}

}  // namespace
}  // namespace ddprun
