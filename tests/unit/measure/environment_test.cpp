// The environment's facts are there, peak memory counts.
#include "ddprun/measure/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ddprun/measure/environment_variables.h"

namespace ddprun {
namespace {

TEST(Environment, EveryFactHasAValue) {
  const auto facts = describe_environment();
  std::vector<std::string> names;
  for (const auto& [name, value] : facts) {
    names.push_back(name);
    EXPECT_FALSE(value.empty()) << name;
  }
  names.resize(names.size() - set_variables().size());  // which follow
  EXPECT_THAT(names, testing::ElementsAre("cpu", "cores", "simd", "products", "float32 products",
                                          "memory", "kernel", "hostname", "torch", "gloo",
                                          "compiler", "build", "ddprun", "time"));
  EXPECT_THAT(facts[5].second, testing::ContainsRegex("^[0-9]+\\.[0-9] GiB$"));
  EXPECT_THAT(facts[8].second, testing::ContainsRegex("^[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_THAT(facts[13].second,
              testing::ContainsRegex("^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"));
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
