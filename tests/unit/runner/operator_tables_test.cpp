// The tables and sentences of what a recorded step called.
#include "runner/report/operator_tables.h"

#include "support/matchers.h"
#include "support/report_rows.h"

namespace ddprun::operator_tables_test {
namespace {

using test::known_row;
using test::lines_of;

TEST(OperatorTables, HaveTheLongestRowsTheKindsAndWhatIsCalledMost) {
  Row row = known_row("strategy=a");
  row.ranks[0].operators = {
      .step_ns = 10'000'000,
      .rows = {{.phase = "forward",
                .part = "qkv",
                .name = "aten::mm",
                .dtype = "float32",
                .calls = 3,
                .ns = 6'000'000,
                .flops = 3e9,
                .bytes = 5e6},
               {.phase = "backward",
                .part = "softmax",
                .name = "aten::_softmax",
                .calls = 4,
                .ns = 3'000'000,
                .flops = 1e9,
                .bytes = 1e6},
               {.phase = "forward", .name = "aten::view", .calls = 50, .ns = 600'000},
               {.phase = "forward", .name = "between operators", .ns = 400'000}},
      .roofline = {.product_flops = {{"float32", 1e12}}, .copy_bytes = 1e10}};
  const std::vector<Row> rows = {row, known_row("strategy=b")};
  const TableLines table(rows);
  const auto longest = lines_of(operator_table(table).markdown());
  ASSERT_EQ(longest.size(), 6u) << "nothing of a row without";
  EXPECT_EQ(longest[2], "| a | aten::mm | forward | qkv | 3 | 6.00 | 60.0 | 3000.00 | 5.00 | 50 |");
  EXPECT_EQ(longest[5], "| a | between operators | forward |  | – | 0.40 | 4.0 | – | – | – |");
  const auto sums = lines_of(operator_sum_table(table).markdown());
  ASSERT_EQ(sums.size(), 7u);
  EXPECT_EQ(sums[2], "| a | matrix products | 6.00 | 85.7 | 100.0 | 6.00 | 60.0 | 75.0 |");
  EXPECT_EQ(sums[3], "| a | softmax | 0.00 | 0.0 | 0.0 | 3.00 | 30.0 | 25.0 |");
  EXPECT_EQ(sums[6], "| a | all | 7.00 | 100.0 | 100.0 | 10.00 | 100.0 | 100.0 |");
  EXPECT_THAT(
      operator_words(table),
      ElementsAre(
          "a: in forward aten::mm takes 6.00 ms in 3 calls, aten::mm is called "
          "most, 3 times; in the step aten::mm takes 6.00 ms in 3 calls, "
          "aten::_softmax is called most, 4 times; softmax takes 50.0 % of the matrix products' "
          "time in the step, for 33.3 % of their FLOPs"));
}

}  // namespace
}  // namespace ddprun::operator_tables_test
