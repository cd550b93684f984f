// Names of rows: short, and told apart in a narrow terminal.
#include <string>
#include <vector>

#include "runner/report/report_table.h"
#include "runner/report/table_lines.h"
#include "runner/report/terminal.h"
#include "support/matchers.h"
#include "support/report_rows.h"
#include "support/sentences.h"

namespace ddprun::test {
namespace {

TEST(RowNames, NamesThatWouldBeCutLoseTheirKeys) {
  const std::vector<Row> rows = {
      known_row("strategy=bucketed(bucket_mb=5, copy=true), model.context_length=128"),
      known_row("strategy=flat, model.context_length=128")};
  const auto lines = lines_of(terminal_report(TableLines(rows), {true, false, 70}, {"forward"}));
  EXPECT_THAT(lines[0], AllOf(StartsWith("strategy, context_length"), HasSubstr("forward")));
  EXPECT_THAT(lines[0], Not(HasSubstr("step ms"))) << "the column that was named stays";
  EXPECT_THAT(lines[1], StartsWith("bucketed (bucket_mb=5, copy=true), 128  "));
  EXPECT_THAT(lines[2], StartsWith("flat, 128  "));
  EXPECT_THAT(terminal_report(TableLines(rows), {}), HasSubstr("strategy=flat, model.context"));

  const RowNames files = values_alone({"experiment", {"a: x.b=1, c=2", "b", "c(d=3)"}});
  EXPECT_EQ(files.title, "experiment");
  EXPECT_THAT(files.names, ElementsAre("a: 1, 2", "b", "c(d=3)"));
}

TEST(RowNames, NamesThatWouldBeCutAlikeLoseWhatTheyShare) {
  const std::string model = "model={vocab_size: 256, context_length: 16, d_model: 32, layers: ";
  const std::vector<Row> rows = {
      known_row(model + "1, heads: 2}, strategy=flat"),
      known_row(model + "1, heads: 4}, strategy=bucketed(bucket_mb=5, copy=true)"),
      known_row(model + "2, heads: 2}, strategy=bucketed(bucket_mb=1, copy=true)")};
  const auto lines = lines_of(terminal_report(TableLines(rows), {true, false, 80}));
  EXPECT_THAT(lines[0], StartsWith("model, strategy  "));
  EXPECT_THAT(lines[1], StartsWith("{layers: 1, heads: 2, …}, flat  "));
  EXPECT_THAT(lines[2], StartsWith("{layers: 1, heads: 4, …}, bucketed (bucket_mb=5…  "));
  EXPECT_THAT(lines[3], StartsWith("{layers: 2, heads: 2, …}, bucketed (bucket_mb=1…  "));

  const RowNames whole = without_shared({"x", {"a: {b: 1, c: 2} (emulated)", "d(e=[1, 2])", "d"}});
  EXPECT_THAT(whole.names, ElementsAre("a: {b: 1, c: 2} (emulated)", "d(e=[1, 2])", "d"));
}

/// A path has no part that could be left out.
TEST(RowNames, NamesThatDifferAtTheirEndsAreCutInTheMiddle) {
  const std::string path = "data.path=/home/somebody/data/of/last/year/tokenized/part_";
  const std::vector<Row> rows = {known_row(path + "1.bin"), known_row(path + "2.bin")};
  const auto lines = lines_of(terminal_report(TableLines(rows), {true, false, 60}));
  EXPECT_THAT(lines[1], AllOf(StartsWith("/home/som"), HasSubstr("part_1.bin  ")));
  EXPECT_THAT(lines[2], AllOf(StartsWith("/home/som"), HasSubstr("part_2.bin  ")));
  for (const std::string& line : lines) EXPECT_LE(display_width(line), 60) << line;
}

TEST(RowNames, WhatRowsShareIsTheSamePluginsInAllOfThem) {
  const auto names = [](std::vector<std::string> all) { return without_shared({"x", all}).names; };
  EXPECT_THAT(names({"a (b=1, c=2)", "a (b=3, c=2)"}), ElementsAre("a (b=1, …)", "a (b=3, …)"));
  EXPECT_THAT(names({"a", "a (b=3, c=2)", "a (b=1, c=2)"}),
              ElementsAre("a", "a (b=3, c=2)", "a (b=1, c=2)"));  // not the first one's
  EXPECT_THAT(names({"a (b=1, c=2)", "a (c=2, b=1)"}), ElementsAre("a (b=1, c=2)", "a (c=2, b=1)"));
}

TEST(RowNames, FilesOfOneNameAreToldApart) {
  std::vector<Row> rows = {known_row(""), known_row(""), known_row("")};
  rows[0].file = "a/known.yaml";
  rows[1].file = "b/known.yaml";
  rows[2].name = "other";
  EXPECT_THAT(row_names(rows).names,
              ElementsAre("known (a/known.yaml)", "known (b/known.yaml)", "other"));
}

TEST(RowNames, KeysAreTitlesOnlyIfAllRowsHaveTheSame) {
  EXPECT_EQ(row_names({known_row("a=1"), known_row("a=2")}).title, "a");
  const RowNames names = row_names({known_row("a=1"), known_row("b=2")});
  EXPECT_EQ(names.title, "experiment");
  EXPECT_THAT(names.names, ElementsAre("a=1", "b=2"));
}

}  // namespace
}  // namespace ddprun::test
