// Which interval of a table is the widest.
#include "runner/command/open_rounds.h"

#include <gtest/gtest.h>

#include "support/sentences.h"

namespace ddprun::enough_rounds_test {
namespace {

std::optional<double> widest(const std::vector<std::vector<double>>& step_ms) {
  std::vector<std::vector<Row>> parts;
  for (const std::vector<double>& each : step_ms) {
    parts.push_back(test::runs_of("strategy=" + std::to_string(parts.size()), each));
  }
  const std::vector<Row> rows = test::table_of(parts);
  return widest_interval(TableLines(rows));
}

TEST(WidestInterval, IsThatOfTheRowThatVariesMost) {
  const std::vector<double> base = {100, 101, 99}, steady = {50, 50.5, 49.5}, loose = {50, 60, 45};
  const auto narrow = widest({base, steady});
  ASSERT_TRUE(narrow);
  EXPECT_LT(*narrow, 0.001) << "what changes with the round is no difference";
  const auto wide = widest({base, steady, loose});
  ASSERT_TRUE(wide);
  EXPECT_GT(*wide, 0.1);
  EXPECT_LT(*wide, 1);
}

TEST(WidestInterval, NeedsThreeRoundsAndTwoRows) {
  EXPECT_FALSE(widest({{100, 101}, {50, 51}}));
  EXPECT_FALSE(widest({{100, 101, 102, 103}})) << "nothing is compared";
  EXPECT_FALSE(widest({{100, 101, 102}, {50, 51, 52}, {70}})) << "one row is not known yet";
}

}  // namespace
}  // namespace ddprun::enough_rounds_test
