// Which interval of a table is the widest.
#include "runner/command/open_rounds.h"

#include <gtest/gtest.h>

#include "support/sentences.h"

namespace ddprun::enough_rounds_test {
namespace {

/// Rows of which the first is the base of all.
std::vector<Row> table_of(const std::vector<std::vector<double>>& step_ms) {
  std::vector<Row> rows;
  for (const std::vector<double>& each : step_ms) {
    const std::string name = "strategy=" + std::to_string(rows.size());
    for (const Row& row : test::runs_of(name, each)) rows.push_back(row);
  }
  for (Row& row : rows) row.baseline = rows.front().fingerprint;
  return rows;
}

std::optional<double> widest(const std::vector<std::vector<double>>& step_ms) {
  const std::vector<Row> rows = table_of(step_ms);
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
