// A table laid out by swept keys: every cell is the table's, wherever it stands.
#include "runner/report/pivot.h"

#include "runner/report/report_output.h"
#include "support/matchers.h"
#include "support/report_rows.h"

namespace ddprun::test {
namespace {

/// Contexts of 8 and 16 with strategies "flat" and "b, (mb=5)"; with the last one memory ran out.
class PivotTest : public testing::Test {
 protected:
  PivotTest() {
    for (const char* context : {"8", "16"}) {
      for (const char* strategy : {"flat", "b(x=1,\"2\")"}) {
        rows_.push_back(known_row(std::string("c=") + context + ", s=" + strategy));
        points_.push_back({{"model.context", context}, {"strategy", strategy}});
      }
    }
    scale_steps(rows_[2], 10);
    rows_.back().ranks.clear();
    rows_.back().status = RowStatus::out_of_memory;
    table_.emplace(rows_);
  }

  PivotConfig pivot(std::vector<std::string> value) const {
    return {{"model.context"}, {"strategy"}, std::move(value)};
  }

  std::vector<Row> rows_;
  std::vector<SweptValues> points_;
  std::optional<TableLines> table_;
};

TEST_F(PivotTest, HasTheCellsOfTheTable) {
  EXPECT_THAT(
      lines_of(pivot_table(pivot({"step ms"}), points_, *table_).markdown()),
      ElementsAre("| context | flat | b (x=1,\"2\") |", "| :--- | ---: | ---: |",
                  "| 8 | 22.0 ±  10.0 | 22.0 ±  10.0 |", "| 16 | 220.0 ± 100.0 | out of memory |"));
}

TEST_F(PivotTest, HasAColumnForEachValue) {
  const TextTable table = pivot_table(pivot({"step ms", "MFU"}), points_, *table_);
  std::vector<std::string> titles;
  for (const TextTable::Column& column : table.columns) titles.push_back(column.title);
  EXPECT_THAT(titles, ElementsAre("context", "flat: step ms", "flat: MFU", "b (x=1,\"2\"): step ms",
                                  "b (x=1,\"2\"): MFU"));
  EXPECT_EQ(table.lines[0].cells[2].text, "–") << "no peak is known";
  EXPECT_EQ(pivot_title(pivot({"step ms", "MFU"})), "step ms, MFU by strategy");
}

TEST_F(PivotTest, OfSeveralKeysHasTheirCombinationsAndHolesWhereNoRowIs) {
  for (SweptValues& point : points_) point.emplace_back("train.batch", point[0].second + "0");
  const TextTable table =
      pivot_table({{"model.context", "train.batch"}, {"strategy"}, {"step ms"}}, points_, *table_);
  ASSERT_EQ(table.lines.size(), 2U);
  EXPECT_EQ(table.lines[1].cells[1].text, "160");
  const TextTable sparse =
      pivot_table({{"model.context"}, {"train.batch"}, {"step ms"}}, points_, *table_);
  EXPECT_EQ(sparse.lines[0].cells[2].text, "–");
}

TEST_F(PivotTest, AsValuesHasEveryDigitAndIsEmptyWithoutAFigure) {
  EXPECT_THAT(lines_of(pivot_csv(pivot({"step ms"}), points_, *table_)),
              ElementsAre("context,flat,\"b (x=1,\"\"2\"\")\"", "8,22,22", "16,220,"));
  EXPECT_THAT(pivot_csv(pivot({"step ms", "exposed %", "proof"}), points_, *table_),
              StartsWith("context,flat: step_ms,flat: exposed_share,flat: proof,"));
}

TEST_F(PivotTest, StandsBelowTheTableAndFitsAPage) {
  ResultContext context{"known", "T", {"ddprun"}, {}, {}, {}};
  context.report.pivot = pivot({"step ms"});
  context.points = points_;
  EXPECT_THAT(summary_markdown(context, *table_),
              HasSubstr("\nstep ms by strategy:\n\n| context | flat | b (x=1,\"2\") |\n"));
  const std::string terminal =
      report_output(ReportFormat::table, context, *table_, {false, false, 80}, false);
  EXPECT_THAT(terminal, HasSubstr("\nstep ms by strategy:\ncontext           flat"));
  const TextTable narrow = pivot_table(pivot({"step ms"}), points_, *table_);
  EXPECT_THAT(pivot_latex(narrow), StartsWith("\\begin{tabular}{lrr}"));
  const TextTable wide = pivot_table(
      pivot({"step ms", "exposed", "forward", "tokens/s", "MFU", "loss"}), points_, *table_);
  EXPECT_THAT(pivot_latex(wide), HasSubstr("\\resizebox{\\textwidth}{!}{%\n\\begin{tabular}"));
  EXPECT_THAT(pivot_latex(wide), HasSubstr("\\end{tabular}\n}\n"));
}

}  // namespace
}  // namespace ddprun::test
