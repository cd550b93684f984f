// What a batch prints in each format: what its files say, and a table as wide as it may be.
#include "runner/report/report_output.h"

#include <ranges>

#include "runner/report/csv_files.h"
#include "support/matchers.h"
#include "support/report_rows.h"
#include "support/written_results.h"

namespace ddprun::test {
namespace {

class ReportOutput : public testing::Test {
 protected:
  std::string in(ReportFormat format, int width = 0) const {
    return report_output(format, context_, table_, {false, false, width}, false);
  }

  const std::vector<Row> rows_ = {known_row("strategy=a"), known_row("strategy=b")};
  const TableLines table_{rows_};
  const ResultContext context_{"known", "2026-11-25T00:00:00Z", {"ddprun", "known.yaml"}, {}, {},
                               {}};
};

TEST_F(ReportOutput, ATableIsAsWideAsItMayBeAndNamesWhatItLeavesOut) {
  const std::string narrow = in(ReportFormat::table, 60);
  for (const std::string& line : lines_of(narrow) | std::views::take(3)) {
    EXPECT_LE(display_width(line), 60) << narrow;
  }
  EXPECT_THAT(narrow, HasSubstr("60 columns are too few for: forward"));
  EXPECT_THAT(in(ReportFormat::table), Not(HasSubstr("too few")));
}

TEST_F(ReportOutput, MarkdownIsThatOfTheSummary) {
  const std::string markdown = in(ReportFormat::markdown, 60);
  EXPECT_THAT(markdown, StartsWith("| strategy | step ms |"));
  EXPECT_THAT(markdown, HasSubstr("\n- proved in 2 of 2 rows"));
  EXPECT_THAT(summary_markdown(context_, table_), HasSubstr(markdown));
}

TEST_F(ReportOutput, MarkdownEscapesNamesInSentencesToo) {
  Row row = known_row("model.frozen=[*.ln1.*]");
  row.ranks.front().checks.front().status = CheckStatus::failed;
  EXPECT_THAT(report_markdown(context_, TableLines({row, known_row("model.frozen=[<b>]")})),
              HasSubstr("\n- NOT PROVED: model.frozen=[\\*.ln1.\\*]: "));
}

TEST_F(ReportOutput, ColumnsThatTheFileChoosesAreThoseOfMarkdownAndLatex) {
  ResultContext chosen = context_;
  chosen.report.columns = {"proof", "step ms"};
  EXPECT_THAT(report_markdown(chosen, table_), StartsWith("| strategy | proof | step ms |\n"));
  EXPECT_THAT(summary_latex(chosen, table_),
              StartsWith("\\begin{tabular}{llr}\n\\toprule\nstrategy & proof & step ms "));
}

TEST_F(ReportOutput, LatexFitsAPageAndNamesWhatItLeavesOut) {
  const std::string latex = summary_latex(context_, table_);
  const std::string head = latex.substr(0, latex.find("\\midrule"));
  EXPECT_LT(head.size(), 150U) << head;
  EXPECT_THAT(latex, HasSubstr("% too wide for a page with: forward, "));
}

TEST_F(ReportOutput, CsvIsTheSummary) { EXPECT_EQ(in(ReportFormat::csv), summary_csv(table_)); }

TEST_F(ReportOutput, JsonIsTheResult) {
  EXPECT_EQ(nlohmann::json::parse(in(ReportFormat::json)), result_json(context_, table_));
}

}  // namespace
}  // namespace ddprun::test
