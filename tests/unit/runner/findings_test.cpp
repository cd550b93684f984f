// Sentences below a table of training, against rows whose numbers were made up for them.
#include <cmath>
#include <numbers>

#include "runner/report/csv_files.h"
#include "runner/report/table_lines.h"
#include "support/matchers.h"
#include "support/sentences.h"

namespace ddprun::test {
namespace {

/// Pairs of rows that are compared with one another alone, of the experiment of that name.
std::vector<Row> pairs_of(const std::string& experiment, int pairs) {
  std::vector<Row> rows;
  for (int pair = 0; pair < pairs; ++pair) {
    const std::string number = std::to_string(pair);
    std::string base;
    for (const double step_ms : {100.0, 90.0}) {
      const std::string strategy = step_ms == 100 ? "base" : "other";
      Row row = runs_of("strategy=" + experiment + "_" + strategy + number, {step_ms}).front();
      row.config["name"] = experiment;
      if (base.empty()) base = row.fingerprint;
      row.baseline = base;
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::vector<Row> naive_and_flat(const std::vector<double>& naive_ms,
                                const std::vector<double>& flat_ms) {
  return table_of({runs_of("strategy=naive", naive_ms), runs_of("strategy=flat", flat_ms)});
}

TEST(Findings, AnExperimentOfManyComparisonsSilencesNoOther) {
  std::vector<Row> rows = pairs_of("many", 8);
  for (const Row& row : pairs_of("late", 1)) rows.push_back(row);
  const std::vector<std::string> texts = sentences(rows);
  EXPECT_THAT(texts, Contains(HasSubstr("late_other0 is 10.0 % faster")));
  EXPECT_THAT(texts, Contains(HasSubstr("many_other5 is")));
  EXPECT_THAT(texts, Not(Contains(HasSubstr("many_other6 is"))));
}

TEST(Findings, TheFastestRowStandsBesideItsBase) {
  const auto rows = naive_and_flat({100}, {98.1});
  EXPECT_THAT(sentences(rows),
              ElementsAre("flat is 1.9 % faster than naive (one run, not tested)"));
  const auto value = findings_of(TableLines(rows)).front().value;
  EXPECT_EQ(value["finding"], "fastest");
  EXPECT_EQ(value["row"], "flat");
  EXPECT_EQ(value["base"], "naive");
  EXPECT_NEAR(value["ratio"].get<double>(), 0.981, 1e-12);
  EXPECT_TRUE(value["p"].is_null());
}

TEST(Findings, TheUnitOfTheTestIsTheRoundOfRuns) {
  const auto rows = naive_and_flat({102, 100, 101}, {97, 98, 99});
  EXPECT_THAT(sentences(rows),
              ElementsAre("flat is 3.0 % faster than naive, within noise (p = 0.095; "
                          "95 %: -1.3 to 7.1 %)",
                          "runs of one row differ by up to 2.0 % in their step "
                          "(largest - smallest, of the mean)"));
  EXPECT_EQ(findings_of(TableLines(rows)).front().value["runs"], (nlohmann::json{97, 98, 99}));
  const auto together = naive_and_flat({100, 101, 102}, {97, 98, 99});
  EXPECT_EQ(sentences(together).front(),
            "flat is 3.0 % faster than naive (p < 0.001; 95 %: 2.9 to 3.0 %)")
      << "what slowed a round slowed both";
  const auto noisy = naive_and_flat({100, 110, 90}, {97, 98, 99});
  EXPECT_THAT(sentences(noisy).front(), HasSubstr("faster than naive, within noise (p = 0.8"));
}

TEST(Findings, WhatDidNotTakeTurnsIsNotTested) {
  auto rows = naive_and_flat({100, 101, 102}, {97, 98, 99});
  for (std::size_t i = 0; i < 3; ++i) rows[i].occasion.time = "2026-01-31T12-00-00Z";
  EXPECT_THAT(sentences(rows).front(),
              "flat is 3.0 % faster than naive (measured at different times, not tested)");
  EXPECT_TRUE(findings_of(TableLines(rows)).front().value["p"].is_null());
  rows[3].occasion.time = rows[0].occasion.time;
  EXPECT_THAT(sentences(rows).front(), HasSubstr("not tested")) << "one run of three did";
}

TEST(Findings, OtherConditionsAreNoFindingOfTheExperiments) {
  auto rows = naive_and_flat({100, 101, 102}, {97, 98, 99});
  for (Row& row : rows) row.conditions["ranks"]["backend"] = "shm";
  rows[4].conditions["ranks"]["backend"] = "gloo";
  rows[5].conditions["libraries"]["plugin strategy flat"] = "another";
  EXPECT_THAT(sentences(rows).front(),
              "flat is 3.0 % faster than naive (backend: shm and gloo, not tested)");
  for (const std::size_t i : {3, 4, 5}) {  // asked for
    rows[i].config["world"]["backend"] = rows[i].conditions["ranks"]["backend"] = "gloo";
  }
  EXPECT_THAT(sentences(rows).front(), HasSubstr("(p < 0.001"));
}

TEST(Findings, ARowCountsFromTheBaseThatTookTurnsWithIt) {
  auto rows = naive_and_flat({100}, {90});
  auto later = naive_and_flat({50}, {40});
  for (Row& row : later) {
    row.name = "later";
    row.occasion.round = 1;
    rows.push_back(row);
  }
  EXPECT_THAT(
      sentences(rows),
      ElementsAre(EndsWith("10.0 % faster than known: strategy=naive (one run, not tested)"),
                  EndsWith("20.0 % faster than later: strategy=naive (one run, not tested)")));
  const TableLines table(rows);
  EXPECT_EQ(speed_up(table.statistics()[2], table.runs_of(*rows[2].kind)).value, 1.0);
}

TEST(Findings, TheShortestOfManyIsHeldAgainstAll) {
  const auto rows =
      table_of({runs_of("strategy=naive", {102, 100, 101}), runs_of("strategy=flat", {97, 98, 99}),
                runs_of("strategy=overlap", {101, 99, 100})});
  EXPECT_THAT(
      sentences(rows).front(),
      "flat, whose mean step is the shortest of 3, is 3.0 % faster than naive, within noise "
      "(p = 0.38; 95 %: -1.3 to 7.1 %); it is 2.0 % faster than overlap, the next, within "
      "noise (p = 0.55; 95 %: -2.4 to 6.2 %)")
      << "two of two pairs, three of three, then both sentences together";
  std::vector<double> often(10, 12), once(10, 11);
  once.back() = 22;  // the mean of its runs is above 12, and that of the quotients is not
  EXPECT_THAT(sentences(table_of({runs_of("strategy=naive", once), runs_of("strategy=flat", often),
                                  runs_of("strategy=overlap", std::vector<double>(10, 13))}))
                  .front(),
              StartsWith("flat, whose mean step is the shortest of 3, takes 1.8 % longer than "
                         "naive, within noise"));
}

TEST(Findings, ARowThatRanTwiceInEachRoundSaysWhatChanceDoes) {
  auto base = runs_of("strategy=naive", {100, 101, 102, 103, 99, 100});
  for (std::size_t i = 0; i < base.size(); ++i)
    base[i].round = static_cast<std::int64_t>(i / 2) + 1;
  const auto rows = table_of({base, runs_of("strategy=flat", {97, 98, 99})});
  const auto found = findings_of(TableLines(rows));
  const Finding& chance = found.back();
  EXPECT_EQ(chance.value["finding"], "calibration");
  EXPECT_THAT(chance.text,
              AllOf(HasSubstr("naive, which ran twice in each of 3 rounds, is 0.3 % faster than "
                              "itself, within noise (p = 0.66; 95 %: "),
                    HasSubstr(": of tables of such chance alone "), HasSubstr("in 4 of 5")));
  EXPECT_EQ(chance.value["of_tests"], 1);
  EXPECT_LT(chance.value["false_alarms"].get<double>(), 0.15);
  EXPECT_GT(chance.value["smallest"].get<double>(), 0.01);
  EXPECT_EQ(found.front().value["base_runs"], (nlohmann::json{100.5, 102.5, 99.5}));
}

TEST(Findings, WhereTheBaseIsTheFastestItSaysSo) {
  const auto rows = table_of({runs_of("strategy=naive", {100}), runs_of("strategy=flat", {150}),
                              runs_of("strategy=overlap", {110})});
  EXPECT_THAT(sentences(rows),
              ElementsAre("overlap takes 10.0 % longer than naive, whose step is the shortest of "
                          "3 (one run, not tested)"));
}

TEST(Findings, TiesAreAsFast) {
  const auto rows = naive_and_flat({100, 100, 100}, {100, 100, 100});
  EXPECT_THAT(sentences(rows).front(),
              "flat is as fast as naive, within noise (p = 1.00; 95 %: 0.0 to 0.0 %)");
}

TEST(Findings, AControlIsNoCandidate) {
  auto rows = table_of({runs_of("strategy=none", {90}), runs_of("strategy=naive", {120}),
                        runs_of("strategy=flat", {99})});
  for (RankResult& rank : rows[0].ranks) rank.checks[1].status = CheckStatus::control;
  EXPECT_THAT(sentences(rows), ElementsAre("flat takes 10.0 % longer than none, which does not "
                                           "synchronize (one run, not tested); it is 17.5 % faster "
                                           "than naive, the next (one run, not tested)"));
}

TEST(Findings, OneRowOrNoneSaysNothing) {
  EXPECT_THAT(sentences({}), IsEmpty());
  EXPECT_THAT(sentences(table_of({runs_of("strategy=naive", {100})})), IsEmpty());
}

TEST(Findings, RowsThatCannotBeReliedOnAreInNone) {
  const auto rows = naive_and_flat({100}, {50});
  auto wrong = rows;
  wrong[1].ranks[1].checks[0].status = CheckStatus::failed;
  EXPECT_THAT(sentences(wrong), IsEmpty());
  auto diverged = rows;
  diverged[1].ranks[0].samples[2][training().loss] = std::nan("");
  EXPECT_THAT(sentences(diverged), IsEmpty());
  auto failed = rows;
  failed[1].ranks.clear();
  failed[1].status = RowStatus::failed;
  EXPECT_THAT(sentences(failed), IsEmpty());
  auto emulated = rows;
  emulated[1].emulated = true;
  EXPECT_THAT(sentences(emulated), IsEmpty());
  auto other_work = rows;
  other_work[1].work["tokens"] = 64;
  EXPECT_THAT(sentences(other_work), IsEmpty()) << "steps of other tokens";
}

TEST(Findings, HiddenCommunicationIsOfWhatIsExposedWithoutOverlap) {
  auto rows = table_of(
      {runs_of("strategy=naive", {100, 100, 100}), runs_of("strategy=overlap", {100, 100, 100})});
  for (std::size_t i = 0; i < 3; ++i) {
    set_all(rows[i], training().exposed_ms, 20 + static_cast<double>(i));
    set_all(rows[i + 3], training().exposed_ms, 3 + 0.15 * static_cast<double>(i));
    set_all(rows[i + 3], training().overlapped_ms, 4);
  }
  EXPECT_THAT(sentences(rows), Contains("overlap hides 85 % of the communication that "
                                        "naive exposes (p < 0.001; "
                                        "95 %: 85.0 to 85.0 %)"));
  for (Row& row : rows) set_all(row, training().overlapped_ms, 0);
  EXPECT_THAT(sentences(rows), Each(Not(HasSubstr("hides"))));
}

TEST(Findings, APrecisionsGainIsSaidWhereTheTableComparesStrategies) {
  auto rows = table_of({runs_of("precision=fp32, strategy=naive", {100}),
                        runs_of("precision=bf16, strategy=naive", {40})});
  for (Row& row : rows) {
    row.baseline = row.fingerprint;
    row.config["strategy"] = "naive";
  }
  rows[1].config["precision"] = "bf16";
  EXPECT_THAT(sentences(rows),
              ElementsAre("precision=bf16, strategy=naive is 2.50 times as fast as precision=fp32, "
                          "strategy=naive (one run, not tested)"));
  EXPECT_EQ(findings_of(TableLines(rows)).front().value["finding"], "precision");
}

/// A row of so many ranks and tokens a step.
std::vector<Row> on_ranks(int ranks, double tokens, const std::vector<double>& steps_ms) {
  std::vector<Row> rows = runs_of("world.size=" + std::to_string(ranks), steps_ms);
  for (Row& row : rows) {
    row.config = {{"strategy", "flat"},
                  {"world", {{"size", ranks}}},
                  {"train", {{"global_batch", tokens}, {"steps", 3}}}};
    row.work["tokens"] = tokens;
    row.ranks.resize(2, row.ranks.front());
    while (static_cast<int>(row.ranks.size()) < ranks) row.ranks.push_back(row.ranks.front());
    row.ranks.resize(static_cast<std::size_t>(ranks), row.ranks.front());
  }
  return rows;
}

std::vector<std::optional<double>> figures(const std::vector<Row>& rows, const Quantity& quantity) {
  const TableLines table(rows);
  std::vector<std::optional<double>> out;
  for (const TableLine& line : table.lines()) {
    out.push_back(table.figure(line, training(), quantity).value);
  }
  return out;
}

TEST(ScalingEfficiency, IsFoundInTheRows) {
  const auto strong =
      table_of({on_ranks(1, 128, {100}), on_ranks(2, 128, {60}), on_ranks(4, 128, {40})});
  EXPECT_THAT(figures(strong, training().strong_efficiency),
              ElementsAre(1.0, testing::Optional(testing::DoubleNear(100 / 120.0, 1e-12)),
                          testing::Optional(testing::DoubleNear(100 / 160.0, 1e-12))));
  EXPECT_THAT(markdown_of(strong), AllOf(HasSubstr("| strong eff. |"), HasSubstr("| 62.5 % |"),
                                         Not(HasSubstr("weak eff."))));
  EXPECT_THAT(sentences(strong), Contains("strong scaling: 4 ranks (world.size=4) have 62 % of the "
                                          "efficiency of one (one run, not tested)"));

  const auto weak =
      table_of({on_ranks(1, 128, {100, 101, 102}), on_ranks(4, 512, {125, 126, 127})});
  EXPECT_THAT(figures(weak, training().weak_efficiency),
              ElementsAre(1.0, testing::Optional(testing::DoubleNear(101 / 126.0, 1e-12))));
  EXPECT_THAT(markdown_of(weak), Not(HasSubstr("strong eff.")));
  EXPECT_THAT(sentences(weak), Contains("weak scaling: 4 ranks (world.size=4) have 80 % "
                                        "of the efficiency of one (p < 0.001; "
                                        "95 %: 79.8 to 80.5 %)"));
}

TEST(ScalingEfficiency, IsNotThereWhereRanksAreNotSweptOrNotEqual) {
  const auto same = naive_and_flat({100}, {90});
  EXPECT_THAT(markdown_of(same), Not(HasSubstr("eff.")));
  auto rows = table_of({on_ranks(1, 128, {100}), on_ranks(2, 128, {60})});
  for (RankResult& rank : rows[0].ranks) rank.threads = 2;
  EXPECT_THAT(markdown_of(rows), Not(HasSubstr("eff.")));
  EXPECT_THAT(sentences(rows), Contains(HasSubstr("no strong efficiency: ")));
  auto other = table_of({on_ranks(1, 128, {100}), on_ranks(2, 128, {60})});
  other[1].config["train"]["steps"] = 4;
  EXPECT_THAT(markdown_of(other), Not(HasSubstr("eff."))) << "another experiment";
}

TEST(Repeats, ALineIsTheMeanOfItsRuns) {
  const auto rows = naive_and_flat({100, 110, 120}, {50, 55, 60});
  EXPECT_THAT(markdown_of(rows), AllOf(HasSubstr("| naive | 110.0 ± 10.0 |"), HasSubstr("| flat |"),
                                       HasSubstr("| 2.00x |"), HasSubstr("✓ proved")));
  EXPECT_THAT(figures(rows, training().time_difference), ElementsAre(0.0, -0.5));
  EXPECT_EQ(table_json(TableLines(rows)).size(), 2u);
  EXPECT_EQ(table_json(TableLines(rows))[1]["figures"]["step_ms"], 55);
  EXPECT_EQ(table_json(TableLines(rows))[1]["first_row"], 4);
  EXPECT_THAT(summary_csv(TableLines(rows)),
              AllOf(HasSubstr("\n4,flat,2,step_ms,ms,55,"),
                    HasSubstr("\n4,flat,all,step_ms,ms,55,55,5,55,59.5,3\n"),
                    HasSubstr("\n4,flat,all,speed_up,,2,,,,,\n")));
  EXPECT_THAT(run_names(TableLines(rows)),
              ElementsAre("naive, run 1 of 3", "naive, run 2 of 3", "naive, run 3 of 3",
                          "flat, run 1 of 3", "flat, run 2 of 3", "flat, run 3 of 3"));
}

TEST(Repeats, ARunThatFailedIsMissedInItsLine) {
  auto rows = naive_and_flat({100, 110, 120}, {50, 55, 60});
  rows[4].ranks.clear();
  rows[4].status = RowStatus::failed;
  rows[4].reason = "it broke";
  EXPECT_THAT(markdown_of(rows),
              AllOf(HasSubstr("| flat | 55.0 ± "), HasSubstr("✓ proved, 2 of 3 runs")));
  EXPECT_THAT(line_texts(rows), Contains("failed: flat, run 2 of 3: it broke"));
  EXPECT_THAT(sentences(rows).front(), HasSubstr("(2 runs, not tested)"));
}

TEST(Findings, WorkBetweenStepsIsSaid) {
  auto rows = table_of({runs_of("strategy=flat", {100})});
  set_all(rows[0], training().cpu_outside_ms, 4);
  EXPECT_THAT(sentences(rows), IsEmpty()) << "4 % of a step";
  set_all(rows[0], training().cpu_outside_ms, 12);
  EXPECT_THAT(sentences(rows), ElementsAre("flat computes for 12.0 ms between one step and the "
                                           "next, which is in no step's time"));
}

TEST(Findings, AWarmUpThatSleepsIsSaid) {
  auto rows = table_of({runs_of("strategy=flat", {100})});
  set_all(rows[0], training().cpu_ms, 90);
  set_all(rows[0], training().synchronize_ms, 10);
  for (RankResult& rank : rows[0].ranks) {
    for (Sample& sample : rank.samples) {
      if (sample.warmup) sample[training().step_ms] = 600;
    }
  }
  EXPECT_THAT(sentences(rows),
              ElementsAre(HasSubstr("a rank of flat slept for 510 ms in warm-up")));
  set_all(rows[0], training().cpu_ms, 9);
  EXPECT_THAT(sentences(rows), IsEmpty()) << "it has its core in no step";
}

TEST(Findings, WhatAModelWroteStandsBesideTheBitsOfATarget) {
  auto rows = table_of({runs_of("strategy=flat", {100})});
  rows[0].ranks[0].texts = {{4, "The a"}};
  rows[0].ranks[0].samples.back()[training().loss] = 3 * std::numbers::ln2;
  rows[0].ranks[1].samples.back()[training().loss] = 4 * std::numbers::ln2;
  EXPECT_THAT(sentences(rows), ElementsAre(HasSubstr("at 3.50 bits per byte of the last batch")));
  rows[0].config["data"]["source"] = "tokens";
  EXPECT_THAT(sentences(rows), ElementsAre(HasSubstr("at 3.50 bits per token of the last batch")));
}

TEST(Findings, WhatChecksTookIsSaidBesideTheirBudget) {
  auto rows = naive_and_flat({100}, {100});
  double steps_s = 0;
  for (const Sample& sample : rows[1].ranks[1].samples) {
    steps_s += sample[training().step_ms] * 1e-3;
  }
  rows[0].ranks[0].checks_s = 0.01 * steps_s;
  rows[1].ranks[1].checks_s = steps_s / 24;
  const auto said = [&rows](const char* share, const char* end) {
    EXPECT_THAT(sentences(rows),
                testing::Contains(AllOf(HasSubstr("checks took "), HasSubstr(" s of flat, "),
                                        HasSubstr(share), testing::EndsWith(end))));
  };
  said("4.0 % of its time, the most of all rows", "(budget: 10 %)");
  rows[1].ranks[1].checks_s = steps_s;
  said("50.0 % of its time", "(budget: 10 %, which more steps would keep)");
}

TEST(Findings, TensorsThatRoundingKeptAreNamed) {
  auto rows = table_of({runs_of("precision=bf16_pure", {100})});
  const auto lost = [](const char* name, std::int64_t steps, std::int64_t without_effect) {
    return LostUpdates{.parameter = name,
                       .weights = 5000,
                       .looked_at = 162,
                       .lost = 162,
                       .steps = steps,
                       .steps_without_effect = without_effect};
  };
  std::vector<LostUpdates>& of = rows[0].ranks[0].lost_updates;
  of = {lost("once", 1, 1), lost("moved", 4, 3)};
  EXPECT_THAT(sentences(rows), IsEmpty());
  of.push_back(lost("still", 4, 4));
  EXPECT_THAT(sentences(rows),
              ElementsAre("bf16_pure: all 162 looked-at weights of still were left unchanged by "
                          "rounding in each of 4 looked-at steps"));
  of.push_back(lost("another", 4, 4));
  of[2].weights = 162;
  EXPECT_THAT(sentences(rows),
              ElementsAre("bf16_pure: all 162 weights of still, and those of 1 more tensor, were "
                          "left unchanged by rounding in each of 4 looked-at steps"));
}

}  // namespace
}  // namespace ddprun::test
