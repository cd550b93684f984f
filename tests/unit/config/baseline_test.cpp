// The base of each point of a sweep, by the rule and by choice.
#include "ddprun/config/report_config.h"
#include "ddprun/experiments/training/training.h"
#include "support/matchers.h"
#include "support/sweep_points.h"

namespace ddprun {
namespace {

using test::message_of;

Baseline baseline_of(const std::string& yaml) {
  const ConfigNode document = parse_yaml(yaml, "file.yaml");
  std::vector<SweptValues> points;
  for (const SweepPoint& point : test::points_of(document)) points.push_back(point.values);
  return find_baseline(document, points);
}

std::string refusal(const std::string& yaml) {
  return test::error_of<ConfigError>([&] { baseline_of(yaml); });
}

TEST(Baseline, OneSweptKeyCountsFromItsFirstValue) {
  const Baseline baseline = baseline_of("sweep: {strategy: [{name: none, x: true}, naive, flat]}");
  EXPECT_THAT(baseline.of_point, ElementsAre(0, 0, 0));
  EXPECT_EQ(baseline.words, "strategy=none(x=true)");
}

TEST(Baseline, OfSeveralKeysTheLastIsCompared) {
  const Baseline baseline =
      baseline_of("sweep: {model.preset: [tiny, small], precision: [fp32, bf16_mixed]}");
  EXPECT_THAT(baseline.of_point, ElementsAre(0, 0, 2, 2)) << "bf16 with fp32 of the same size";
  EXPECT_EQ(baseline.words, "precision=fp32 of the same model.preset");
}

TEST(Baseline, AKeyOfOneValueComparesNothing) {
  const Baseline baseline = baseline_of("sweep: {strategy: [naive, flat], precision: [fp32]}");
  EXPECT_THAT(baseline.of_point, ElementsAre(0, 0));
  EXPECT_EQ(baseline.words, "strategy=naive");
  EXPECT_THAT(baseline_of("sweep: {precision: [fp32]}").of_point, IsEmpty());
  EXPECT_THAT(baseline_of("precision: fp32").of_point, IsEmpty());
}

TEST(Baseline, AnotherCanBeChosen) {
  const std::string sweep =
      "sweep: {precision: [fp32, bf16], strategy: [naive, {name: b, mb: 5}]}\n";
  const Baseline precision = baseline_of(sweep + "report: {baseline: {precision: fp32}}");
  EXPECT_THAT(precision.of_point, ElementsAre(0, 1, 0, 1));
  EXPECT_EQ(precision.words, "precision=fp32 of the same strategy");
  const Baseline later = baseline_of(sweep + "report: {baseline: {strategy: {name: b, mb: 5}}}");
  EXPECT_THAT(later.of_point, ElementsAre(1, 1, 3, 3));
  const Baseline both =
      baseline_of(sweep + "report: {baseline: {strategy: naive, precision: bf16}}");
  EXPECT_THAT(both.of_point, ElementsAre(2, 2, 2, 2));
  EXPECT_EQ(both.words, "strategy=naive, precision=bf16");
  EXPECT_THAT(baseline_of(sweep + "report: {}").of_point, ElementsAre(0, 0, 2, 2));
}

TEST(Baseline, TheLastPartOfAKeyIsEnough) {
  const Baseline baseline = baseline_of(
      "sweep: {train.batch: [1, 2], model.context: [8, 9]}\nreport: {baseline: {batch: 2}}");
  EXPECT_THAT(baseline.of_point, ElementsAre(2, 3, 2, 3));
  EXPECT_EQ(baseline.words, "train.batch=2 of the same model.context");
  EXPECT_THAT(refusal("sweep: {a.size: [1, 2], b.size: [1]}\nreport: {baseline: {size: 1}}"),
              HasSubstr("report names a key by a part that several keys have"));
}

TEST(Baseline, WhatIsNotSweptIsRefused) {
  const std::string sweep = "sweep: {precision: [fp32, bf16]}\n";
  EXPECT_EQ(refusal(sweep + "report: {baseline: {strategy: naive}}"),
            message_of("report names a key that is not swept", "file.yaml:2:21", "strategy",
                       "precision", "remove it; on the command line: --set 'report={}'"));
  EXPECT_THAT(refusal("report: {baseline: {precision: fp32}}"), HasSubstr("expected: a sweep"));
  EXPECT_EQ(
      refusal(sweep + "report: {baseline: {precision: fp8}}"),
      message_of("report.baseline has a value that is not swept", "file.yaml:2:32", "precision=fp8",
                 "fp32, bf16", "write the value as it stands under `sweep:`"));
  EXPECT_THAT(refusal(sweep + "report: {baseline: fp32}"),
              HasSubstr("report.baseline must be a mapping"));
}

TEST(Report, ItsOtherKeysAreReadStrictly) {
  const auto report_of = [](const std::string& yaml) {
    return read_report(parse_yaml(yaml, "file.yaml"));
  };
  const auto refused = [&](const std::string& yaml) {
    return test::error_of<ConfigError>([&] { report_of(yaml); });
  };
  EXPECT_EQ(report_of("precision: fp32").repeats, 1);
  EXPECT_EQ(report_of("report:").repeats, 1) << "all its lines are commented out";
  EXPECT_THAT(refused("report: 3"), StartsWith("report must be a mapping"));
  EXPECT_EQ(report_of("report: {repeats: 3, baseline: {precision: fp32}}").repeats, 3);
  EXPECT_THAT(refused("report: {repeats: 0}"), HasSubstr("file.yaml:1:19"));
  EXPECT_THAT(refused("report: {repeats: 2.5}"), HasSubstr("integer"));
  EXPECT_THAT(refused("report: {basline: {precision: fp32}}"), HasSubstr("'baseline'"));
}

/// The section as it stands beside that sweep.
ReportConfig completed(const std::string& yaml) {
  const ConfigNode document = parse_yaml(yaml, "file.yaml");
  std::vector<SweptValues> points;
  for (const SweepPoint& point : test::points_of(document)) points.push_back(point.values);
  ReportConfig report = read_report(document);
  complete_report(report, document, training(), points);
  return report;
}

std::string report_refused(const std::string& report) {
  return test::error_of<ConfigError>([&] {
    completed(
        "sweep: {a.size: [1, 2], b.size: [1], model.context: [8, 9], strategy: [n, o]}\n"
        "report: {" +
        report + "}\n");
  });
}

TEST(Report, NamesOfAPivotAreWrittenOutInFull) {
  const PivotConfig pivot =
      completed(
          "sweep: {train.batch: [1, 2], model.context: [8, 9], strategy: [n, o]}\n"
          "report: {pivot: {rows: [batch, model.context], columns: strategy, "
          "value: [step_ms, loss]}}")
          .pivot;
  EXPECT_THAT(pivot.rows, ElementsAre("train.batch", "model.context"));
  EXPECT_THAT(pivot.columns, ElementsAre("strategy"));
  EXPECT_THAT(pivot.value, ElementsAre("step ms", "loss"));
  EXPECT_TRUE(completed("precision: fp32").pivot.empty());
}

TEST(Report, APivotOfWhatIsNotThereIsRefused) {
  EXPECT_EQ(report_refused("pivot: {rows: contxt, columns: strategy, value: step_ms}"),
            message_of("report names a key that is not swept", "file.yaml:2:18", "contxt",
                       "a.size, b.size, model.context, strategy",
                       "remove it; on the command line: --set 'report={}'"));
  EXPECT_THAT(report_refused("pivot: {rows: size, columns: strategy, value: step_ms}"),
              HasSubstr("by a part that several keys have"));
  EXPECT_THAT(report_refused("pivot: {rows: a.size, columns: strategy, value: step_ms}"),
              HasSubstr("got: no model.context\n"));
  EXPECT_EQ(report_refused("pivot: {rows: [a.size, context], columns: strategy, value: loss}"),
            "no error");
  EXPECT_THAT(report_refused("pivot: {rows: [a.size, context, strategy], columns: strategy, "
                             "value: loss}"),
              HasSubstr("got: strategy twice\n"));
  EXPECT_THAT(report_refused("pivot: {rows: a.size, columns: strategy}"),
              HasSubstr("report.pivot needs rows, columns and value"));
  for (const char* report :
       {"columns: los", "pivot: {rows: [a.size, context], columns: strategy, value: los}"}) {
    const std::string text = report_refused(report);
    EXPECT_THAT(text, HasSubstr("report names a column that the table does not have\n"));
    EXPECT_THAT(text, HasSubstr("hint: did you mean 'loss'?"));
  }
}

TEST(Report, ARowThatIsNotThereIsNotDrawn) {
  EXPECT_EQ(report_refused("timeline: [8, 1]"), "no error");
  EXPECT_THAT(report_refused("timeline: 9"), HasSubstr("expected: 1 to 8, the rows of the sweep"));
}

TEST(Report, RepeatsAloneLeaveTheBaselineAsItIs) {
  const Baseline baseline = baseline_of("sweep: {precision: [fp32, bf16]}\nreport: {repeats: 3}");
  EXPECT_THAT(baseline.of_point, ElementsAre(0, 0));
}

}  // namespace
}  // namespace ddprun
