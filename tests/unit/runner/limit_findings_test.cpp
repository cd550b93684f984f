// Sentences of what limits a row, against numbers that were made up for them.
#include "support/matchers.h"
#include "support/sentences.h"

namespace ddprun::test {
namespace {

/// A row that exposes 10 ms a step, of which the link takes `link_ms`, and `earliest_ms` however
/// early it is asked.
std::vector<Row> exposing(double link_ms, double earliest_ms) {
  std::vector<Row> rows = runs_of("strategy=naive", {100});
  rows[0].ranks[0].link = {{CollectiveKind::all_reduce, 2, 40, 1.5}};
  set_all(rows[0], training().link_ms, link_ms);
  set_all(rows[0], training().link_earliest_ms, earliest_ms);
  set_all(rows[0], training().link_latency_ms, 2);
  return rows;
}

TEST(LimitFindings, ExposedCommunicationIsPartedByWhatLimitsIt) {
  EXPECT_THAT(
      sentences(exposing(7, 0)),
      ElementsAre("of 10.0 ms that naive exposes, 7.0 are asked for when backward is over; "
                  "3.0 are beyond what the link takes by itself (link: 1.5 GB/s and 40 µs a "
                  "call, 2.0 ms are latency)"));
  EXPECT_THAT(sentences(exposing(20, 9.9)).front(),
              AllOf(HasSubstr("9.9 are more than the link carries while ranks compute"),
                    Not(HasSubstr(";"))))
      << "what is below a twentieth is not told, and no part is more than all";
  std::vector<Row> quick = exposing(7, 0);
  quick[0].ranks[0].link[0].latency_us = 0.4;
  EXPECT_THAT(sentences(quick).front(), HasSubstr("1.5 GB/s and 0.4 µs a call"));
  quick[0].ranks[0].link[0].latency_us = 0;
  EXPECT_THAT(sentences(quick).front(), HasSubstr("1.5 GB/s and no latency beside the noise"));
  const auto value = findings_of(TableLines(exposing(7, 0))).front().value;
  EXPECT_EQ(value["limit"], "late");
  EXPECT_EQ(value["late_ms"], 7);
  EXPECT_EQ(value["contention_ms"], 3);
  EXPECT_EQ(value["link_ms"], 0);
}

TEST(LimitFindings, WhatOverlapsNamesItsLastCollective) {
  std::vector<Row> rows = exposing(7, 0);
  set_all(rows[0], training().overlapped_ms, 4);
  rows[0].ranks[0].timeline.resize(1);
  rows[0].ranks[0].timeline[0].collectives = {
      {.label = "head", .enqueue_ns = 5, .wait_begin_ns = 9},
      {.label = "embedding", .enqueue_ns = 8, .wait_begin_ns = 9}};
  EXPECT_THAT(sentences(rows).front(), HasSubstr("7.0 come too late to be hidden, embedding last"));
}

TEST(LimitFindings, LittleExposedCommunicationLimitsNothing) {
  std::vector<Row> rows = exposing(7, 0);
  set_all(rows[0], training().exposed_ms, 1.9);
  EXPECT_THAT(sentences(rows), IsEmpty()) << "below 2 % of the step";
}

TEST(LimitFindings, ASlowRankIsNamedWithItsPhase) {
  std::vector<Row> rows = runs_of("strategy=naive", {100});
  for (RankResult& rank : rows[0].ranks) {
    rank.samples.resize(1, rank.samples.back());
    rank.samples.resize(21, rank.samples.back());
    for (std::size_t i = 1; i < rank.samples.size(); ++i) {
      Sample& sample = rank.samples[i];
      sample.step = static_cast<std::int64_t>(i);
      sample.warmup = false;
      sample[training().forward_ms] = 20;
      sample[training().backward_ms] = rank.rank == 1 && i > 5 ? 46 : 40;
      sample[training().optimizer_ms] = 5;
    }
  }
  EXPECT_THAT(
      sentences(rows),
      ElementsAre("rank 1 of naive was slow in 15 of 20 steps (since measured step 6), most "
                  "of it in backward: the others wait for it, 4.5 ms a step in the mean of all"));
  for (RankResult& rank : rows[0].ranks) {
    rank.cores = {rank.rank};
    rank.load = {10, 5, {{rank.rank, rank.rank == 1 ? 9.0 : 5.2, 0}}, "the machine"};
  }
  EXPECT_THAT(sentences(rows),
              Contains(EndsWith("a step in the mean of all; other programs took 40 % "
                                "of a core from it, and 2 % from the others")));
  rows[0].ranks[0].load.cores[0].busy_s = 9;
  EXPECT_THAT(sentences(rows), Contains(EndsWith("4.5 ms a step in the mean of all")))
      << "both lost as much";
  set_all(rows[0], training().collectives, 0);
  EXPECT_THAT(sentences(rows), IsEmpty()) << "nobody waits";
}

/// Rows of one sweep over context lengths, whose steps expose 10 ms each.
std::vector<Row> over_contexts(const std::vector<double>& steps_ms) {
  std::vector<Row> rows;
  std::int64_t context = 128;
  for (const double step_ms : steps_ms) {
    Row row = runs_of("context_length=" + std::to_string(context), {step_ms}).front();
    row.config["strategy"] = "naive";
    row.config["model"] = {{"context_length", context}};
    rows.push_back(std::move(row));
    context *= 2;
  }
  return rows;
}

TEST(LimitFindings, AShareThatFallsOverASweptNumberIsSaid) {
  const std::string trend =
      "from 128 to 512 the exposed share of the step falls from 50 to 10 %: model.context_length "
      "128 to 512, 1.00 times the bytes, 5.00 times the step";
  EXPECT_THAT(sentences(over_contexts({20, 40, 100})), Contains(trend));
  EXPECT_THAT(sentences(over_contexts({20, 100, 40})), IsEmpty()) << "it goes both ways";
  EXPECT_THAT(sentences(over_contexts({20, 100})), IsEmpty()) << "two are no trend";
  EXPECT_THAT(sentences(over_contexts({400, 410, 420})), IsEmpty()) << "a change of no size";
}

TEST(LimitFindings, BucketsStandBesideTheClosedForm) {
  std::vector<Row> rows = runs_of("without", {520.0});  // which has no bucket_mb
  rows[0].config["strategy"] = {{"name", "overlap"}};
  for (const double mb : {1.0, 5.0, 25.0}) {
    Row row = runs_of("bucket_mb=" + std::to_string(mb), {mb == 5 ? 500.0 : 510.0}).front();
    row.config["strategy"] = {{"name", "bucketed"}, {"bucket_mb", mb}};
    row.ranks[0].link = {{CollectiveKind::all_reduce, 2, 100, 1}};
    set_all(row, training().bytes, 40e6);
    rows.push_back(std::move(row));
  }
  EXPECT_THAT(sentences(rows),
              Contains("buckets: the shortest of 3 steps has 5 MB; sqrt(s o w) is 2 MB, of "
                       "40.0 MB of gradients, 100 µs a call and 1 GB/s"));
}

}  // namespace
}  // namespace ddprun::test
