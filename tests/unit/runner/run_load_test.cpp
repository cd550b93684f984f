// What other programs took while a run was measured, from numbers that were made up.
#include "ddprun/result/run_load.h"

#include "support/matchers.h"
#include "support/sentences.h"

namespace ddprun::test::run_load_test {
namespace {

/// Two ranks of ten seconds on a core each, of which they took 9 and 8.
Row loaded_row(const std::string& label, double busy_s = 10, double stolen_s = 0) {
  Row row = known_row(label);
  for (int rank = 0; rank < 2; ++rank) {
    row.ranks[rank].host = "one";
    row.ranks[rank].cores = {rank};
    row.ranks[rank].load = {10, 9.0 - rank, {{rank, busy_s, stolen_s}}, "the machine", 0};
    row.ranks[rank].gflops_before = 90 - rank;
    row.ranks[rank].gflops_after = 80 + rank;
  }
  return row;
}

TEST(RunLoad, IsWhatTheRanksOfAHostDidNotTake) {
  Row row = loaded_row("a=1", 10, 0.5);
  RunLoad load = load_of(row);
  EXPECT_NEAR(load.others.value(), 0.3, 1e-12);
  EXPECT_NEAR(load.stolen.value(), 0.1, 1e-12);
  EXPECT_EQ(load.before_gflops, 89);
  EXPECT_EQ(load.after_gflops, 80);
  row.ranks[1].load.cores = row.ranks[0].load.cores = {{0, 10, 0}, {1, 9, 0}};
  EXPECT_NEAR(load_of(row).others.value(), 0.2, 1e-12) << "ranks that share their cores";
  for (const char* const name : {"after", "two"}) {
    row.ranks[1].host = name;
    EXPECT_NEAR(load_of(row).others.value(), 1.1, 1e-12) << "the busiest host, not the last";
  }
}

TEST(RunLoad, WhatARankLostIsOfItsOwnCores) {
  Row row = loaded_row("a=1");
  EXPECT_NEAR(taken_from(row.ranks[0], row).value(), 0.1, 1e-12);
  EXPECT_NEAR(taken_from(row.ranks[1], row).value(), 0.2, 1e-12);
  row.ranks[1].load.cores[0].stolen_s = 3;
  EXPECT_NEAR(taken_from(row.ranks[1], row).value(), 0.5, 1e-12);
  for (RankResult& rank : row.ranks) {
    rank.cores = {0, 1};
    rank.load.cores = {{0, 10, 0}, {1, 9, 0}};
  }
  EXPECT_NEAR(taken_from(row.ranks[0], row).value(), 0.2, 1e-12) << "the other rank is no other";
  row.ranks[0].load.cores = row.ranks[1].load.cores = {};
  EXPECT_FALSE(taken_from(row.ranks[0], row));
}

TEST(RunLoad, TicksOfTheKernelAreNoProgram) {
  Row row = loaded_row("a=1");
  const auto set = [&row](double wall_s, double busy_s) {
    for (int rank = 0; rank < 2; ++rank) {
      row.ranks[rank].load = {wall_s, wall_s, {{rank, busy_s, 0}}, "the machine"};
    }
  };
  set(0.002, 0.01);
  EXPECT_FALSE(load_of(row).others) << "shorter than a tick";
  set(0.2, 0.21);
  EXPECT_EQ(load_of(row).others, 0);
  set(0.2, 0.22);
  EXPECT_NEAR(load_of(row).others.value(), 0.2, 1e-9);
}

TEST(RunLoad, WhatIsNotSeenIsNotZero) {
  Row row = loaded_row("a=1");
  for (RankResult& rank : row.ranks) {
    rank.load.cores.clear();
    rank.load.throttled_s = -1;
    rank.load.sees = "nothing";
    rank.gflops_before = rank.gflops_after = 0;
  }
  const nlohmann::json load = to_json(load_of(row));
  for (const char* key : {"others", "stolen", "throttled", "before_gflops", "after_gflops"}) {
    EXPECT_TRUE(load.at(key).is_null()) << key;
  }
  EXPECT_EQ(load["sees"], "nothing");
  EXPECT_THAT(markdown_of({row}), Not(HasSubstr("others")));
}

TEST(RunLoad, ABusyMachineIsSaidBelowTheTable) {
  EXPECT_THAT(
      line_texts({loaded_row("a=1", 8.9), loaded_row("a=2", 8.6), loaded_row("a=3", 10)}),
      AllOf(Contains(EndsWith("BUSY: another program took 30 % of a core while 3 ran, 8 % while 1 "
                              "ran")),
            Each(Not(HasSubstr("another machine")))))
      << "2 % is what the kernel itself takes";
  EXPECT_THAT(
      line_texts({loaded_row("a=1", 8.5, 1)}),
      Contains(HasSubstr("BUSY: another machine on the same host took 20 % of a core while ")));
  std::vector<Row> many;
  for (int i = 0; i < 9; ++i) many.push_back(loaded_row("a=" + std::to_string(i)));
  EXPECT_THAT(line_texts(many), Contains(HasSubstr("while 5 ran, and in 3 more")));
}

TEST(RunLoad, AQuotaThatHeldRanksBackIsSaidAndHasAColumn) {
  std::vector<Row> rows = {loaded_row("a=1", 8.5), loaded_row("a=2", 8.5)};
  rows[0].ranks[1].load.throttled_s = 0.09;
  EXPECT_THAT(line_texts(rows), Each(Not(HasSubstr("quota")))) << "less than 1 % of the time";
  EXPECT_THAT(markdown_of(rows), Not(HasSubstr("throttled")));
  rows[0].ranks[1].load.throttled_s = 3;
  EXPECT_THAT(line_texts(rows),
              Contains(EndsWith("BUSY: the cgroup's quota took 30 % of a core while 1 ran")));
  EXPECT_THAT(markdown_of(rows), AllOf(HasSubstr("| machine GFLOP/s | throttled |"),
                                       HasSubstr("| 80 | 30 % |"), HasSubstr("| 80 | 0 % |")));
}

TEST(RunLoad, StandsInItsColumns) {
  EXPECT_THAT(markdown_of({loaded_row("a=1", 10, 0.5)}),
              AllOf(HasSubstr("| others | machine GFLOP/s |"), HasSubstr("| 40 % | 80 |")));
  Row faster = loaded_row("a=1");
  for (RankResult& rank : faster.ranks) rank.gflops_after = 200;
  EXPECT_THAT(markdown_of({faster}), HasSubstr("| 30 % | 89 |")) << "the slower of both";
}

}  // namespace
}  // namespace ddprun::test::run_load_test
