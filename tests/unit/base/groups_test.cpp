// Groups keep the order in which their keys came.
#include "ddprun/base/ranges.h"

#include "support/matchers.h"

namespace ddprun {
namespace {

using testing::Pair;

TEST(Groups, KeepTheOrderOfTheirKeysAndOfTheirValues) {
  Groups<std::vector<int>> groups;
  groups["z"].push_back(1);
  groups["a"].push_back(2);
  groups["z"].push_back(3);
  const std::vector<std::pair<std::string, std::vector<int>>> all(groups.begin(), groups.end());
  EXPECT_THAT(all, ElementsAre(Pair("z", ElementsAre(1, 3)), Pair("a", ElementsAre(2))));
}

TEST(Groups, ANewValueIsADefault) {
  Groups<const int*> groups;
  EXPECT_EQ(groups["new"], nullptr);
}

}  // namespace
}  // namespace ddprun
