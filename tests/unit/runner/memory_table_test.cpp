// The tables of memory: by phase, and by what it is.
#include "runner/report/memory_table.h"

#include "runner/report/report_table.h"
#include "support/matchers.h"
#include "support/report_rows.h"
#include "support/written_results.h"

namespace ddprun::memory_table_test {
namespace {

using test::known_row;
using test::lines_of;
using test::row_json;

TEST(MemoryTable, HasThePhasesOfEachRowAndNamesTheLargest) {
  Row row = known_row("strategy=a");
  row.ranks[0].memory_phases = {
      {"setup", {.allocated_bytes = 1'000'000, .peak_allocated_bytes = 2'000'000}},
      {"backward", {.allocated_bytes = 1'500'000, .peak_allocated_bytes = 7'000'000}}};
  row.ranks[1].memory_phases = row.ranks[0].memory_phases;
  row.ranks[1].memory_phases[1].memory.peak_allocated_bytes = 7'500'000;
  const auto lines = lines_of(memory_table(TableLines({row, known_row("strategy=b")})).markdown());
  ASSERT_EQ(lines.size(), 4u) << "a row without has no line";
  EXPECT_EQ(lines[0], "| strategy | phase | allocated MB | peak MB |  |");
  EXPECT_EQ(lines[2], "| a | setup | 1.00 | 2.00 |  |");
  EXPECT_EQ(lines[3], "| a | backward | 1.50 | 7.50 | largest |");
  EXPECT_THAT(report_table(TableLines({row})).markdown(), HasSubstr("| 7.5 MB, backward |"));

  row.ranks[0].device = {{"cuda:0", "a GPU"}};
  row.ranks[1].memory_phases[1].memory.retries = 3;
  EXPECT_THAT(memory_table(TableLines({row})).markdown(),
              HasSubstr("| 7.50 | 0.00 | 0.00 | 3 | largest |"));
}

TEST(MemoryTable, HasTheCategoriesAtThePeakAndWhatABlockSaves) {
  Row row = known_row("strategy=a");
  row.ranks[0].memory_peak = {
      .phase = "backward",
      .tensors = {{"moments", 3'000'000}},
      .categories = {{"moments", 3'000'000}, {"data", 0}, {"library", 5'000'000}},
      .unexplained_bytes = 2'000'000,
      .resident_bytes = 10'000'000,
      .saved = {{"w1w3", 3000}, {"norm", 1000}},
      .saved_again = {{"qkv", 400}},
      .tokens = 100};
  const std::vector<Row> rows = {row, known_row("strategy=b")};
  const TableLines table(rows);
  const auto lines = lines_of(memory_category_table(table).markdown());
  ASSERT_EQ(lines.size(), 6u) << "nothing of what is 0, nor of a row without";
  EXPECT_EQ(lines[2], "| a | moments | 3.00 | 30.0 | 3.00 | – | – |");
  EXPECT_EQ(lines[4], "| a | unexplained | 2.00 | 20.0 | – | – | – |");
  EXPECT_EQ(lines[5], "| a | resident, in backward | 10.00 | 100.0 | 3.00 | – | – |");
  EXPECT_THAT(saved_words(table),
              ElementsAre("a: the first block saves 0.004 MB for backward, 40 bytes a token: "
                          "w1w3 75.0 %, norm 25.0 %; backward computes 0.000 MB again, 4 bytes "
                          "a token: qkv 100.0 %"));
}

TEST(MemoryTable, HasThePredictionBesideThePeakAndSaysWhereTheyDiffer) {
  Row row = known_row("strategy=a");
  for (RankResult& rank : row.ranks) {
    rank.memory_phases = {{"setup", {.peak_allocated_bytes = 600'000}},
                          {"forward", {.peak_allocated_bytes = 20'200'000}},
                          {"backward", {.peak_allocated_bytes = 30'000'000}}};
  }
  row.predicted = Account{.ranks = 2, .phases = {{"setup", {}}, {"forward", {}}, {"backward", {}}}};
  row.predicted->phases[0].at_peak[MemoryCategory::parameters] = 300'000;
  row.predicted->phases[1].at_peak[MemoryCategory::saved] = 20'000'000;
  row.predicted->phases[2].at_peak[MemoryCategory::parameters] = 25'000'000;
  EXPECT_EQ(row_from_json(row_json(row)).predicted, row.predicted);
  const auto lines = lines_of(memory_table(TableLines({row})).markdown());
  EXPECT_THAT(lines[0], HasSubstr("| peak MB | predicted MB | difference |"));
  EXPECT_EQ(lines[2], "| a | setup | 0.00 | 0.60 | 0.30 | +100.0 % |  |") << "nobody's concern";
  EXPECT_EQ(lines[3], "| a | forward | 0.00 | 20.20 | 20.00 | +1.0 % |  |");
  EXPECT_THAT(
      memory_remarks(TableLines({row})),
      ElementsAre(HasSubstr("a: the peak of backward is +20.0 % of what was predicted, as")));

  Row ended = row;
  ended.ranks.clear();
  ended.status = RowStatus::out_of_memory;
  EXPECT_EQ(lines_of(memory_table(TableLines({ended})).markdown()).back(),
            "| a | backward | – | – | 25.00 | out of memory |  |");

  row.predicted = Account{.unknown = "a plugin failed"};
  EXPECT_THAT(memory_remarks(TableLines({row})),
              ElementsAre("a: its memory was not predicted: a plugin failed"));
}

TEST(MemoryTable, HasThePredictionBesideEachCategory) {
  Row row = known_row("strategy=a");
  row.ranks[0].memory_peak = {.phase = "forward",
                              .tensors = {{"parameters", 4'000'000}, {"moments", 6'000'000}},
                              .categories = {{"parameters", 4'000'000}, {"moments", 6'000'000}},
                              .resident_bytes = 10'000'000};
  row.predicted = Account{.phases = {{"setup", {}}, {"forward", {}}}};
  row.predicted->phases[0].at_peak[MemoryCategory::parameters] = 20'000'000;  // of no step
  row.predicted->phases[1].at_peak[MemoryCategory::parameters] = 4'000'000;
  row.predicted->phases[1].at_peak[MemoryCategory::moments] = 8'000'000;
  const std::vector<Row> rows = {row};
  const TableLines table(rows);
  const auto lines = lines_of(memory_category_table(table).markdown());
  EXPECT_EQ(lines[2], "| a | parameters | 4.00 | 40.0 | 4.00 | 4.00 | +0.0 % |");
  EXPECT_EQ(lines[3], "| a | moments | 6.00 | 60.0 | 6.00 | 8.00 | -25.0 % |");
  EXPECT_EQ(lines[5], "| a | resident, in forward | 10.00 | 100.0 | 10.00 | 12.00 | -16.7 % |");
  EXPECT_THAT(memory_remarks(table),
              ElementsAre(HasSubstr("a: moments of rank 0 at the peak are -25.0 % of")));
}

}  // namespace
}  // namespace ddprun::memory_table_test
