// Statistics over steps and ranks, the proof, the table and its layout, against values worked out
// by hand.
#include <cmath>
#include <set>

#include "ddprun/result/run_statistics.h"
#include "runner/report/report_table.h"
#include "runner/report/result_files.h"
#include "runner/report/table_lines.h"
#include "support/matchers.h"
#include "support/sentences.h"
#include "support/written_results.h"

namespace ddprun::test {
namespace {

/// The cells of a column of the table.
std::vector<std::string> cells_below(const std::string& title, const std::vector<Row>& rows) {
  const std::vector<std::string> lines = lines_of(markdown_of(rows));
  const std::vector<std::string> titles = cells_of(lines[0]);
  const auto column = std::find(titles.begin(), titles.end(), title) - titles.begin();
  std::vector<std::string> cells;
  for (std::size_t i = 2; i < lines.size(); ++i) cells.push_back(cells_of(lines[i]).at(column));
  return cells;
}

TEST(ReportStatistics, StepsAreOfTheSlowestRankAndPhasesTheMean) {
  const Row row = known_row("a=1");
  const Training& q = training();
  const RunStatistics s(row);
  EXPECT_EQ(s[q.step_ms].steps.count, 3);  // warm-up left out
  EXPECT_DOUBLE_EQ(s[q.step_ms].steps.median, 22);
  EXPECT_DOUBLE_EQ(s[q.step_ms].steps.max, 32);
  EXPECT_DOUBLE_EQ(s[q.forward_ms].steps.median, 21.0 / 4);
  EXPECT_DOUBLE_EQ(s[q.exposed_ms].steps.median, 20.0 / 2);  // of the rank that waited least
  EXPECT_DOUBLE_EQ(s.figure(q.exposed_share).value.value(), (20.0 / 2) / 22);
  EXPECT_DOUBLE_EQ(s.figure(q.overlapped_share).value.value(), 0.25);
  EXPECT_DOUBLE_EQ(s[q.skew_ms].steps.mean, 0.5);  // ranks waited 1 ms differently
  EXPECT_DOUBLE_EQ(s[q.launch_delay_ms].steps.median, 0.75);
  EXPECT_DOUBLE_EQ(s.rank_steps()[0].median, 20);
  EXPECT_DOUBLE_EQ(s.rank_steps()[1].median, 22);
  EXPECT_DOUBLE_EQ(s.figure(q.samples_per_s).value.value(), 8 / 0.022);
  EXPECT_DOUBLE_EQ(s.figure(q.tokens_per_s).value.value(), 8 * 16 / 0.022);
  EXPECT_DOUBLE_EQ(s[q.loss].first, 5.5);
  EXPECT_DOUBLE_EQ(s[q.loss].last, 2.5);
  EXPECT_DOUBLE_EQ(s.figure(q.collectives).value.value(), 3);
}

TEST(ReportStatistics, OneLongStepMovesMeansAndNoMedian) {
  Row row = known_row("a=1");
  const Training& q = training();
  for (RankResult& rank : row.ranks) {
    rank.samples[3][q.step_ms] = 300;
    rank.samples[3][q.bytes] = 10'000'000;
  }
  const RunStatistics s(row);
  EXPECT_DOUBLE_EQ(s.figure(q.step_ms).value.value(), 22);
  EXPECT_DOUBLE_EQ(s.figure(q.bytes).value.value(), 5'000'000);
}

TEST(ReportStatistics, WhatHasNoValueIsNullAndNotZero) {
  const Row row = known_row("a=1");
  const nlohmann::json none = row_json(row)["statistics"]["host_ms"];
  EXPECT_EQ(none["count"], 0);
  for (const char* key : {"mean", "std", "median", "p95", "max", "ci95"}) {
    EXPECT_TRUE(none[key].is_null()) << key;
  }
  Row short_row = row;
  for (RankResult& rank : short_row.ranks)
    rank.samples.erase(rank.samples.begin() + 2, rank.samples.end());
  const nlohmann::json one = row_json(short_row)["statistics"]["step_ms"];
  EXPECT_EQ(one["median"], 12);
  EXPECT_TRUE(one["std"].is_null() && one["ci95"].is_null()) << "one step has no spread";
  EXPECT_THAT(cells_below("step ms", {short_row}), ElementsAre("12.0"));
}

TEST(ReportTable, NothingReadsAsZeroOrAsAllThatIsNot) {
  const auto two = text_as("{:.2f}");
  EXPECT_EQ(two(0), "0.00");
  EXPECT_EQ(two(0.004), "0.004");
  EXPECT_EQ(two(1e-9), "0.0000");
  EXPECT_EQ(two(std::nan("")), "nan");
  EXPECT_EQ(text_as("{:+.1f} %", 100)(-0.0003), "-0.03 %");
  EXPECT_EQ(text_as("{:.0f}")(0.42), "0.4");
  EXPECT_EQ(percent_text(0.996), "99.6");
  EXPECT_EQ(percent_text(0.99999), "99.9");
  EXPECT_EQ(percent_text(0.985), "98");
  EXPECT_EQ(percent_text(1), "100");
  EXPECT_EQ(percent_text(0.0004), "0.04");
}

TEST(ReportTable, ATimeReadsAsZeroBesideALargeOneOnlyIfItIs) {
  std::vector<Row> rows = {known_row("a=1"), known_row("a=2"), known_row("a=3")};
  set_all(rows[0], training().exposed_ms, 20);
  set_all(rows[1], training().exposed_ms, 0.004);
  set_all(rows[2], training().exposed_ms, 0);
  EXPECT_THAT(cells_below("exposed", rows), ElementsAre("20.0", "0.004", "0.0"));
  EXPECT_THAT(cells_below("exposed %", rows), ElementsAre("90.9", "0.02", "0.0"));
}

TEST(ReportStatistics, RefusesRanksWithOtherSteps) {
  Row row = known_row("a=1");
  row.ranks[1].samples.pop_back();
  EXPECT_THROW(RunStatistics{row}, std::invalid_argument);
  row = known_row("a=1");
  row.ranks[1].samples[1].warmup = true;
  EXPECT_THROW(RunStatistics{row}, std::invalid_argument);
  row = known_row("a=1");
  for (RankResult& rank : row.ranks) rank.samples.resize(1, rank.samples[0]);
  EXPECT_THROW(RunStatistics{row}, std::invalid_argument) << "warm-up alone";
  row.ranks.clear();
  EXPECT_THROW(RunStatistics{row}, std::invalid_argument);
}

TEST(Proof, TheStrictestRankCounts) {
  Row row = known_row("a=1");
  EXPECT_EQ(summarize_proof(row).status, CheckStatus::passed);
  row.ranks[0].checks[1].status = CheckStatus::control;
  EXPECT_EQ(summarize_proof(row).status, CheckStatus::control);
  row.ranks[1].checks[1] = {"parameters_equal", CheckStatus::failed, "hash differs"};
  const Proof proof = summarize_proof(row);
  EXPECT_EQ(proof.status, CheckStatus::failed);
  EXPECT_EQ(proof.checks[1].detail, "rank 1: hash differs");
  row.ranks[0].checks[1] = row.ranks[1].checks[1];
  EXPECT_EQ(summarize_proof(row).checks[1].detail, "hash differs") << "all ranks say so";
  EXPECT_EQ(summarize_proof(ddprun::Run()).status, CheckStatus::unchecked);
}

TEST(ReportTable, ColumnsAlignAndNamesAreShort) {
  std::vector<Row> rows = {known_row("strategy=a"), known_row("strategy=long(x=1, y=2)")};
  rows[1].ranks[1].checks[0] = {"integer_gradients", CheckStatus::failed, "index 3 differs"};
  rows[1].status = RowStatus::proof_failed;
  const std::vector<std::string> lines = lines_of(report_table(TableLines(rows)).render(0, false));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(lines[0].starts_with("strategy             step ms"));
  EXPECT_TRUE(lines[1].starts_with("a                22.0 ± 10.0")) << lines[1];
  EXPECT_THAT(lines[1], HasSubstr("5.500 → 2.500"));
  EXPECT_THAT(lines[1], HasSubstr("✓ proved"));
  EXPECT_THAT(lines[2], HasSubstr("✗ integer_gradients"));
  EXPECT_EQ(display_width(lines[1].substr(0, lines[1].find("✓"))),
            display_width(lines[2].substr(0, lines[2].find("✗"))));
  EXPECT_THAT(
      line_texts(rows),
      ElementsAre(HasSubstr("proved in 1 of 2 rows"),
                  "NOT PROVED: long (x=1, y=2): integer_gradients: rank 1: index 3 differs"));
}

TEST(ReportTable, SmallFiguresBesideLargeOnesKeepTheirDigits) {
  std::vector<Row> rows = {known_row("strategy=a"), known_row("strategy=b")};
  set_all(rows[0], training().step_ms, 0.25);
  set_all(rows[1], training().step_ms, 12345);
  EXPECT_THAT(report_table(TableLines(rows)).render(0, false), HasSubstr("0.25 ±"));
  set_all(rows[0], training().step_ms, 25);
  EXPECT_THAT(report_table(TableLines(rows)).render(0, false), HasSubstr("12345 ±"));
}

TEST(ReportTable, AFailedRowSaysWhy) {
  std::vector<Row> rows = {known_row("strategy=a"), known_row("strategy=b")};
  rows[1].ranks.clear();
  rows[1].status = RowStatus::failed;
  rows[1].reason = "rank 1 failed: it broke\n  hint: mend it";
  const std::vector<std::string> lines = lines_of(report_table(TableLines(rows)).render(0, false));
  EXPECT_EQ(lines[2], "b         failed: rank 1 failed: it broke");
  EXPECT_THAT(markdown_of(rows), HasSubstr("| b | failed: rank 1 failed: it broke |"));
  EXPECT_EQ(
      lines_of(report_table(TableLines({rows[1]})).render(0, false)),
      (std::vector<std::string>{"strategy  proof", "b         failed: rank 1 failed: it broke"}));
}

TEST(ReportTable, ANarrowTerminalLosesColumnsNotTheirAlignment) {
  std::vector<Row> rows = {known_row("strategy=a"), known_row("strategy=b")};
  for (Row& row : rows) row.baseline = rows[0].fingerprint;
  for (const int width : {60, 80, 100, 120}) {
    std::vector<std::string> dropped;
    const std::string text = report_table(TableLines(rows)).render(width, false, &dropped);
    for (const std::string& line : lines_of(text)) EXPECT_LE(display_width(line), width) << line;
    EXPECT_FALSE(dropped.empty());
    for (const char* kept : {"step ms", "exposed", "speed-up", "proof"})
      EXPECT_THAT(text, HasSubstr(kept));
  }
  EXPECT_THAT(terminal_report(TableLines(rows), {true, false, 60}),
              HasSubstr("60 columns are too few for: "));
}

TEST(ReportTable, AProofThatFailedBeforeTheFirstStepCounts) {
  std::vector<Row> rows = {known_row("strategy=a"), known_row("strategy=b")};
  rows[1].ranks.clear();
  rows[1].status = RowStatus::proof_failed;
  rows[1].reason = "products_format: bfloat16 is declared\nmore";
  EXPECT_THAT(line_texts(rows),
              ElementsAre(HasSubstr("proved in 1 of 2 rows"),
                          "NOT PROVED: b: products_format: bfloat16 is declared"));
}

/// A row whose steps take `factor` times as long as those of known_row().
Row slower_row(const std::string& label, double factor, const Row& base) {
  Row row = known_row(label);
  scale_steps(row, factor);
  row.baseline = base.fingerprint;
  row.baseline_words = "precision=fp32 of the same model.preset";
  return row;
}

TEST(ReportTable, ASpeedUpCountsFromItsOwnBase) {
  const Row tiny = known_row("model.preset=tiny, precision=fp32");
  const Row small = known_row("model.preset=small, precision=fp32");
  std::vector<Row> rows = {slower_row(tiny.label, 1, tiny),
                           slower_row("model.preset=tiny, precision=bf16", 0.8, tiny),
                           slower_row(small.label, 4, small),
                           slower_row("model.preset=small, precision=bf16", 2, small)};
  EXPECT_THAT(cells_below("speed-up", rows), ElementsAre("1.00x", "1.25x", "1.00x", "2.00x"));
  EXPECT_THAT(line_texts(rows), Contains("speed-up counts from precision=fp32 of the same "
                                         "model.preset"));
  rows.erase(rows.begin());
  EXPECT_THAT(cells_below("speed-up", rows), ElementsAre("–", "1.00x", "2.00x"))
      << "its base is not there";

  rows[0].name = rows[0].baseline_words = "other";
  rows[0].baseline = rows[0].fingerprint;
  EXPECT_THAT(line_texts(rows), AllOf(Contains("speed-up in other counts from other"),
                                      Contains(StartsWith("speed-up in known counts from prec"))));
}

TEST(ReportTable, WithoutABaseThereIsNoSpeedUp) {
  const std::vector<Row> rows = {known_row("a"), known_row("b")};
  EXPECT_THAT(markdown_of(rows), Not(HasSubstr("speed-up")));
  EXPECT_THAT(line_texts(rows), Each(Not(HasSubstr("speed-up"))));
}

TEST(ReportTable, ContentionIsAgainstARowOfTheSameWorkWithoutCommunication) {
  std::vector<Row> rows = {known_row("a"), known_row("b"), known_row("c")};
  set_all(rows[0], training().collectives, 0);
  set_all(rows[1], training().backward_ms, 3.3);
  for (Row& row : rows) row.config = {{"strategy", row.label}, {"precision", "fp32"}};
  rows[2].config["precision"] = "bf16";
  EXPECT_THAT(cells_below("contention", rows), ElementsAre("–", "+3.3", "–"));
}

/// 128 tokens in 22 ms on two ranks, and so much work that each does 100 TFLOP/s.
Row row_on(const std::string& device, const std::string& dtype) {
  Row row = known_row("strategy=a");
  row.work["flops"] = 100e12 * 2 * 0.022;
  for (RankResult& rank : row.ranks) {
    rank.device_name = device;
    rank.matmul_dtype = dtype;
  }
  return row;
}

TEST(Utilization, IsTheShareOfTheDevicesPeakOfOneRank) {
  const Row row = row_on("NVIDIA A100-SXM4-80GB", "bfloat16");
  const RunStatistics statistics(row);
  EXPECT_NEAR(statistics.figure(training().tflops).value.value(), 100, 1e-9);
  EXPECT_NEAR(statistics.figure(training().mfu).value.value(), 100.0 / 312, 1e-12);
  EXPECT_NEAR(row_json(row)["statistics"]["mfu"].get<double>(), 100.0 / 312, 1e-12);
  EXPECT_THAT(markdown_of({row}), HasSubstr("| 100 | 32.1 % |"));
  EXPECT_THAT(line_texts({row}), Each(Not(HasSubstr("MFU"))));
}

TEST(Utilization, IsRefusedWhereNoPeakIsKnown) {
  const Row unknown = row_on("NVIDIA Unheard Of", "bfloat16");
  EXPECT_TRUE(row_json(unknown)["statistics"]["mfu"].is_null());
  EXPECT_THAT(
      line_texts({unknown, unknown}),
      ElementsAre(HasSubstr("proved"), "no MFU: the peak of \"NVIDIA Unheard Of\" is not known"));
  EXPECT_THAT(markdown_of({unknown, row_on("NVIDIA A100-SXM4-80GB", "bfloat16")}),
              HasSubstr("| 100 | – |"));

  Row mixed = row_on("NVIDIA H200", "tf32");
  mixed.ranks[1].device_name = "NVIDIA B200";
  EXPECT_THAT(line_texts({mixed}), Contains("no MFU: the ranks' devices differ"));

  Row emulated = row_on("NVIDIA H200", "bfloat16");
  emulated.emulated = true;
  EXPECT_THAT(row_json(emulated)["statistics"]["no_mfu"].get<std::string>(), HasSubstr("shared"));
  EXPECT_THAT(line_texts({emulated}), Each(Not(HasSubstr("MFU"))));

  const Row cpu = row_on("", "float32");
  EXPECT_THAT(row_json(cpu)["statistics"]["no_mfu"].get<std::string>(), HasSubstr("CPU"));
  EXPECT_THAT(line_texts({cpu}), Each(Not(HasSubstr("MFU")))) << "nobody expects one";
  EXPECT_THAT(markdown_of({cpu}), Not(HasSubstr("MFU"))) << "no row has a value";
}

TEST(ReportTable, ColourOnlyWhereAskedFor) {
  const std::vector<Row> rows = {known_row("strategy=a")};
  EXPECT_THAT(terminal_report(TableLines(rows), {true, true, 200}), HasSubstr("\033[32m✓ proved"));
  EXPECT_THAT(terminal_report(TableLines(rows), {true, false, 200}), Not(HasSubstr("\033")));
}

TEST(ReportTable, SentencesEndWhereATerminalDoesAndAreLinesInAPipe) {
  const std::vector<Row> rows = {known_row("strategy=a")};
  const std::string seen = terminal_report(TableLines(rows), {true, false, 60});
  for (const std::string& line : lines_of(seen)) EXPECT_LE(display_width(line), 60) << line;
  std::size_t widest = 0;
  for (const auto& line : lines_of(terminal_report(TableLines(rows), {false, false, 60}))) {
    widest = std::max(widest, line.size());
  }
  EXPECT_GT(widest, 200);
}

TEST(ReportTable, ALossThatIsNoNumberIsSaidBelowTheTable) {
  Row row = known_row("a");
  EXPECT_THAT(line_texts({row}), Each(Not(HasSubstr("DIVERGED"))));
  row.ranks[1].samples[2][training().loss] = std::nan("");
  EXPECT_THAT(line_texts({row}), Contains(HasSubstr("the loss was nan in step 2 on rank 1")));
}

TEST(ReportTable, SkippedStepsAreCountedAndSaidBelowTheTable) {
  Row row = known_row("a");
  EXPECT_THAT(line_texts({row}), Each(Not(HasSubstr("SKIPPED"))));
  for (RankResult& rank : row.ranks) {
    for (const int step : {0, 2}) rank.samples[step][training().skipped] = 1;
  }
  EXPECT_EQ(row_json(row)["statistics"]["skipped"], 2);
  EXPECT_EQ(RunStatistics(row)[training().step_ms].steps.count, 3) << "their times count";
  EXPECT_THAT(line_texts({row}), Contains(HasSubstr("2 of 4 steps")));
  Row again = row;
  again.repetition = 2;
  for (RankResult& rank : again.ranks) rank.samples[0][training().loss] += 1;
  EXPECT_THAT(summary_csv(TableLines({row, again})), HasSubstr("1,a,all,skipped,,4,"))
      << "of both runs";
  EXPECT_THAT(cells_below("loss", {row, again}), ElementsAre("6.000 → 2.500"));
}

TEST(Report, WhatIsLessThanProvedOrNotAsAskedForIsSaid) {
  std::vector<Row> rows = {known_row("a=1"), known_row("a=2")};
  for (RankResult& rank : rows[1].ranks) rank.checks[0].status = CheckStatus::declared;
  rows[1].ranks[1].fell_back = true;
  rows[1].ranks[1].backend = "gloo";
  EXPECT_THAT(line_texts(rows), AllOf(Contains(StartsWith("proved in 1 of 2 rows: ")),
                                      Contains("as declared, which is less than proved: 2: equal"),
                                      Contains("FELL BACK: 2: gloo")));
}

TEST(Report, RunsOfARowAreOneLineAndTheirNumberIsSaid) {
  std::vector<Row> runs = runs_of("a=1", {10, 11, 12});
  EXPECT_THAT(line_texts(runs),
              Contains(HasSubstr("up to 3 runs of each row, which took turns (")));
  runs[1].occasion.time = "later";
  runs[2].ranks.clear();
  EXPECT_THAT(line_texts(runs), Contains(HasSubstr("means over up to 3 runs of each row (")));
  const auto line = table_json(TableLines(runs)).at(0);
  EXPECT_EQ(line["runs"], 3);
  EXPECT_EQ(line["measured"], 2);
  EXPECT_NEAR(line["std"]["step_ms"].get<double>(), std::sqrt(0.5), 1e-12);
}

TEST(Report, EmulatedRowsShowNoTimes) {
  Row emulated = known_row("world.size=2");
  emulated.emulated = true;
  std::vector<Row> rows = {emulated, known_row("world.size=1")};
  for (Row& row : rows) row.baseline = rows[1].fingerprint;
  const std::vector<std::string> lines = lines_of(markdown_of(rows));
  const auto titles = cells_of(lines[0]);
  const auto shared = cells_of(lines[2]);
  const auto own = cells_of(lines[3]);
  EXPECT_EQ(shared[0], "2 (emulated)");
  const std::set<std::string> no_times = {"world.size", "MB/step", "collectives", "loss", "proof"};
  for (std::size_t i = 0; i < titles.size(); ++i) {
    if (no_times.contains(titles[i])) {
      EXPECT_NE(shared[i], "–") << titles[i];
    } else {
      EXPECT_EQ(shared[i], "–") << titles[i];
    }
    if (titles[i] == "speed-up") {
      EXPECT_EQ(own[i], "1.00x");
    }
  }
  for (Row& row : rows) row.baseline = rows[0].fingerprint;
  EXPECT_THAT(markdown_of(rows), Not(HasSubstr("speed-up"))) << "it has no time";
  EXPECT_THAT(line_texts(rows), Each(Not(HasSubstr("speed-up"))));
  EXPECT_THAT(line_texts(rows), Contains(AllOf(HasSubstr("emulated: world.size=2: "),
                                               HasSubstr("times"), HasSubstr("withheld"))));
  EXPECT_THAT(line_texts({known_row("a=1")}), Not(Contains(HasSubstr("emulated"))));
}

TEST(ResultFiles, EmulatedRowsSaySo) {
  Row emulated = known_row("a=1");
  emulated.emulated = true;
  EXPECT_EQ(row_json(emulated)["emulated"], true);
  EXPECT_TRUE(row_from_json(row_json(emulated)).emulated);
  const std::vector<std::string> lines = lines_of(steps_csv({known_row("a=1"), emulated}));
  EXPECT_TRUE(lines[0].starts_with("row,label,run,emulated,rank,step,"));
  EXPECT_TRUE(lines[1].starts_with("1,1,1,0,0,0,1,"));
  EXPECT_TRUE(lines[9].starts_with("2,1,1,1,0,0,1,")) << lines[9];
}

TEST(ResultFiles, CsvQuotesLabels) {
  const std::string csv = steps_csv({known_row("s=1, t=\"x\"")});
  const std::vector<std::string> lines = lines_of(csv);
  ASSERT_EQ(lines.size(), 9u);
  EXPECT_TRUE(lines[1].starts_with("1,\"s=1, t=\"\"x\"\"\",1,0,0,0,1,1000.000000,250.000000"))
      << lines[1];
  EXPECT_TRUE(lines[1].ends_with(",2500000,3,5,,,,,,,0")) << "no gradient norm: " << lines[1];
}

}  // namespace
}  // namespace ddprun::test
