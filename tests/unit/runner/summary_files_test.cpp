// The figures of all rows as CSV, and tables as LaTeX.
#include "runner/report/csv_files.h"
#include "runner/report/report_table.h"
#include "runner/report/text_table.h"
#include "support/matchers.h"
#include "support/report_rows.h"

namespace ddprun::test {
namespace {

TEST(SummaryCsv, HasALineForEachRowAndQuantity) {
  std::vector<Row> rows = {known_row("a, b"), known_row("c")};
  rows[0].ranks[1].samples[3][training().step_ms] = 62;
  const std::string csv = summary_csv(TableLines(rows));
  // The slowest rank's steps: 12, 22 and 62 or 32 ms.
  EXPECT_THAT(csv, AllOf(StartsWith("row,label,run,quantity,unit,figure,mean,std,median,p95,n\n"),
                         HasSubstr("1,\"a, b\",1,step_ms,ms,22,32,26.457513110645905,22,58,3\n"),
                         HasSubstr("\n2,c,1,step_ms,ms,22,22,10,22,31,3\n"),
                         HasSubstr("2,c,1,samples_per_s,sequences/s,"),
                         HasSubstr("2,c,1,collectives,,3,3,0,3,3,3\n"), Not(HasSubstr("speed_up")),
                         Not(HasSubstr(",all,"))));
}

TEST(SummaryCsv, OneStepHasNoSpread) {
  Row row = known_row("a");
  for (RankResult& rank : row.ranks) rank.samples.pop_back();
  EXPECT_THAT(summary_csv(TableLines({row})),
              HasSubstr("1,a,1,step_ms,ms,17,17,7.0710678118654755,17,21.5,2\n"));
  for (RankResult& rank : row.ranks)
    rank.samples.erase(rank.samples.begin() + 2, rank.samples.end());
  EXPECT_THAT(summary_csv(TableLines({row})), HasSubstr("1,a,1,step_ms,ms,12,12,,12,12,1\n"));
}

TEST(SummaryCsv, WithholdsTimesOfEmulatedRanksAndRowsWithoutFigures) {
  Row emulated = known_row("a");
  emulated.emulated = true;
  Row failed = known_row("b");
  failed.ranks.clear();
  const std::string csv = summary_csv(TableLines({emulated, failed}));
  EXPECT_THAT(csv, AllOf(Not(HasSubstr("step_ms")), HasSubstr("1,a,1,bytes,bytes,"),
                         Not(HasSubstr("\n2,"))));
}

TEST(CollectivesCsv, HasTheLastStepInMillisecondsFromItsBegin) {
  constexpr std::int64_t kMs = 1'000'000;
  Row row = known_row("a");
  for (RankResult& rank : row.ranks) {
    const std::int64_t begin = 7 * kMs + rank.rank * kMs;
    const CollectiveRecord record = {.kind = CollectiveKind::all_reduce,
                                     .bytes = 2'000'000,
                                     .ranks = 2,
                                     .label = "bucket 0",
                                     .enqueue_ns = begin + 1 * kMs,
                                     .start_ns = begin + 2 * kMs,
                                     .end_ns = 12 * kMs,
                                     .wait_begin_ns = begin + 3 * kMs,
                                     .wait_end_ns = 12 * kMs};
    rank.timeline = {{.step = 2, .begin_ns = 1}, {.step = 3, .begin_ns = begin}};
    rank.timeline[1].collectives = {record};
  }
  EXPECT_THAT(
      collectives_csv({row}),
      HasSubstr("\n1,a,1,all_reduce,bucket 0,2000000,1.000,2.000,5.000,1.500,1.000,2.000,,"));
}

TEST(Latex, TablesHaveRulesAndEscapeWhatLatexWouldRead) {
  TextTable table;
  table.columns = {{"a_b", false}, {"50 %"}};
  table.lines = {{{{"x & y"}, {"1.0 ± 0.1"}}}, {{{"{z}"}}, {"failed: #1"}}};
  EXPECT_EQ(table.latex(),
            "\\begin{tabular}{lr}\n"
            "\\toprule\n"
            "a\\_b & 50 \\% \\\\\n"
            "\\midrule\n"
            "x \\& y & 1.0 $\\pm$ 0.1 \\\\\n"
            "\\{z\\} & \\multicolumn{1}{l}{failed: \\#1} \\\\\n"
            "\\bottomrule\n"
            "\\end{tabular}\n");
}

TEST(Latex, AListThatBeginsARowIsNoOptionOfTheRowBefore) {
  TextTable table;
  table.columns = {{"frozen", false}};
  for (const char* name : {"[\"a.*\", \"b.*\"]", "*.c", "d<e>|"}) table.add({name});
  EXPECT_THAT(table.latex(), HasSubstr("{[}\"a.{*}\", \"b.{*}\"] \\\\\n{*}.c \\\\\n"
                                       "d\\textless{}e\\textgreater{}\\textbar{} \\\\\n"));
  EXPECT_THAT(table.markdown(), HasSubstr("| [\"a.\\*\", \"b.\\*\"] |\n| \\*.c |\n| d\\<e>\\| |"));
}

TEST(Latex, TheReportsTableHasNoMarkThatAFontMayLack) {
  const std::string latex = report_table(TableLines({known_row("a")})).latex();
  EXPECT_THAT(latex,
              AllOf(HasSubstr(" & proved \\\\\n"), Not(HasSubstr("✓")), Not(HasSubstr("–"))));
}

}  // namespace
}  // namespace ddprun::test
