// Sentences of what would help a row, against numbers that were made up for them.
#include "runner/report/memory_table.h"
#include "support/matchers.h"
#include "support/sentences.h"

namespace ddprun::test::advice_test {
namespace {

/// Exposes `exposed_ms` of 100 ms a step.
Row exposing(const std::string& label, double exposed_ms, double overlapped_ms = 4) {
  Row row = runs_of(label, {100}).front();
  set_all(row, training().exposed_ms, exposed_ms);
  set_all(row, training().overlapped_ms, overlapped_ms);
  set_all(row, training().communication_ms, 50);
  return row;
}

TEST(Advice, WhatTheLinkBoundsNoOrderMakesShorter) {
  Row row = exposing("naive", 40);
  set_all(row, training().link_earliest_ms, 30);
  EXPECT_THAT(
      sentences({row}),
      Contains("no order of the same collectives makes a step of naive shorter than 90.0 ms "
               "(it takes 100.0): fewer bytes, a faster link or more to compute would"));
  set_all(row, training().link_earliest_ms, 19);
  EXPECT_THAT(sentences({row}), Not(Contains(HasSubstr("no order")))) << "less than half";
  set_all(row, training().link_earliest_ms, 9);
  set_all(row, training().exposed_ms, 9);
  EXPECT_THAT(sentences({row}), Not(Contains(HasSubstr("no order")))) << "a tenth of the step";
}

TEST(Advice, ARowThatExposesLessIsNamed) {
  const Row bucketed = exposing("bucketed", 40);
  const std::string less =
      "bucketed exposes 40.0 ms of its step of 100.0; overlap exposes 15.0 of 100.0, by its "
      "strategy alone";
  EXPECT_THAT(sentences({bucketed, exposing("overlap", 15)}), Contains(less));
  EXPECT_THAT(sentences({bucketed, exposing("overlap", 25)}), Not(Contains(HasSubstr("alone"))))
      << "more than half";
  EXPECT_THAT(sentences({exposing("naive", 40, 0), exposing("overlap", 15)}),
              Not(Contains(HasSubstr("alone"))))
      << "that is what overlap hides, which another sentence says";
  Row other = exposing("overlap", 15);
  other.config["precision"] = "bf16_mixed";
  EXPECT_THAT(sentences({bucketed, other}), Not(Contains(HasSubstr("alone")))) << "not comparable";
}

/// A row that did not run, and what a rank would take.
Row without_memory(const std::string& label, std::int64_t bytes) {
  Row row = known_row(label);
  row.status = RowStatus::out_of_memory;
  row.ranks.clear();
  row.predicted = Account{.phases = {{"backward", {}}}};
  row.predicted->phases[0].at_peak[MemoryCategory::parameters] = bytes;
  return row;
}

TEST(Advice, ARowWithoutMemoryStandsBesideWhatRan) {
  const Row none = without_memory("strategy=a", 5'000'000'000);
  Row slower = runs_of("strategy=b", {200}).front(), faster = runs_of("strategy=c", {100}).front();
  faster.predicted = without_memory("", 1'230'000'000).predicted;
  EXPECT_THAT(memory_advice(TableLines({none, slower, faster})),
              ElementsAre("a is out of memory (5 GB a rank by the account): of the same tokens a "
                          "step c (1.23 GB a rank by the account) ran, the fastest of 2 that did"));
  EXPECT_THAT(memory_advice(TableLines({none, slower})),
              ElementsAre(HasSubstr("of the same tokens a step b ran")));
  slower.work["tokens"] = 1;
  EXPECT_THAT(memory_advice(TableLines({none, slower})), IsEmpty()) << "another step";
  EXPECT_THAT(memory_advice(TableLines({slower, faster})), IsEmpty());
}

TEST(Advice, WhereNoRowRanTheLeastIsNamed) {
  const std::vector<Row> rows = {without_memory("strategy=a", 5'000'000'000),
                                 without_memory("strategy=b", 3'000'000'000)};
  EXPECT_THAT(memory_advice(TableLines(rows)),
              ElementsAre("a is out of memory (5 GB a rank by the account): of the same tokens a "
                          "step b (3 GB a rank by the account) takes the least, and no row ran"));
}

TEST(Advice, StandsBelowTheTable) {
  const std::vector<Row> rows = {without_memory("strategy=a", 5'000'000'000),
                                 runs_of("strategy=b", {200}).front()};
  EXPECT_THAT(line_texts(rows), Contains(HasSubstr("a is out of memory")));
}

}  // namespace
}  // namespace ddprun::test::advice_test
