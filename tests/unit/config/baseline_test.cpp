// The base of each point of a sweep, by the rule and by choice.
#include "ddprun/config/baseline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ddprun/base/error.h"
#include "ddprun/config/report_config.h"
#include "support/error_of.h"

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Baseline baseline_of(const std::string& yaml) {
  const ConfigNode document = parse_yaml(yaml, "file.yaml");
  std::vector<SweptValues> points;
  for (const SweepPoint& point : expand_sweep(document)) points.push_back(point.values);
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

TEST(Baseline, WhatIsNotSweptIsRefused) {
  const std::string sweep = "sweep: {precision: [fp32, bf16]}\n";
  EXPECT_EQ(refusal(sweep + "report: {baseline: {strategy: naive}}"),
            "report.baseline names a key that is not swept\n"
            "  where: file.yaml:2:21\n"
            "  got: strategy\n"
            "  expected: precision\n"
            "  hint: remove it; on the command line: --set 'report={}'");
  EXPECT_THAT(refusal("report: {baseline: {precision: fp32}}"), HasSubstr("expected: a sweep"));
  EXPECT_EQ(refusal(sweep + "report: {baseline: {precision: fp8}}"),
            "report.baseline has a value that is not swept\n"
            "  where: file.yaml:2:32\n"
            "  got: precision=fp8\n"
            "  expected: fp32, bf16\n"
            "  hint: write the value as it stands under `sweep:`");
  for (const char* wrong : {"report: 3", "report: [a]", "report: {baseline: fp32}"}) {
    EXPECT_THAT(refusal(sweep + wrong), HasSubstr("report.baseline must be a mapping")) << wrong;
  }
}

TEST(Report, ItsOtherKeysAreReadStrictly) {
  const auto report_of = [](const std::string& yaml) {
    return read_report(parse_yaml(yaml, "file.yaml"));
  };
  const auto refused = [&](const std::string& yaml) {
    return test::error_of<ConfigError>([&] { report_of(yaml); });
  };
  EXPECT_EQ(report_of("precision: fp32").repeats, 1);
  EXPECT_EQ(report_of("report: {repeats: 3, baseline: {precision: fp32}}").repeats, 3);
  EXPECT_THAT(refused("report: {repeats: 0}"), HasSubstr("file.yaml:1:19"));
  EXPECT_THAT(refused("report: {repeats: 2.5}"), HasSubstr("integer"));
  EXPECT_THAT(refused("report: {basline: {precision: fp32}}"), HasSubstr("'baseline'"));
}

TEST(Report, RepeatsAloneLeaveTheBaselineAsItIs) {
  const Baseline baseline = baseline_of("sweep: {precision: [fp32, bf16]}\nreport: {repeats: 3}");
  EXPECT_THAT(baseline.of_point, ElementsAre(0, 0));
}

}  // namespace
}  // namespace ddprun
