// Rows, files and tables of a kind of experiment that trains nothing.
#include <nlohmann/json.hpp>

#include "ddprun/experiments/kinds.h"
#include "ddprun/result/run_statistics.h"
#include "runner/report/csv_files.h"
#include "runner/report/pivot.h"
#include "runner/report/report_table.h"
#include "support/matchers.h"
#include "support/report_rows.h"
#include "support/written_results.h"

namespace ddprun::test {
namespace {

/// A benchmark of one collective, all of it.
struct Transfers final : ExperimentKind {
  Transfers() : ExperimentKind({.name = "transfers"}) {}
  std::string in_short(const RunStatistics& run) const override {
    return std::to_string(run[call_ms].steps.count) + " calls";
  }
  const Quantity& call_ms =
      declare("call_ms", "ms", "", {.over_ranks = OverRanks::max, .title = "call ms"});
  const Quantity& retried = declare("retried", "", "",
                                    {.written = Written::boolean,
                                     .over_ranks = OverRanks::max,
                                     .over_steps = OverSteps::count,
                                     .title = "retried"});
  const Quantity& gap_ms = declare("gap_ms", "ms", "", {.optional = true});
  const Quantity& size = declare(
      "size", "bytes", "",
      {.of_work = "bytes", .title = "size", .timed = false, .text = text_as("{:.0f} MB", 1e-6)});
  const Quantity& gb_per_s = declare(
      "gb_per_s", "GB/s", "", {.follows = speed, .title = "GB/s", .text = text_as("{:.2f}")});

  static Figure speed(const RunStatistics& run);
};

const Transfers& transfers() {
  static const Transfers kind;
  return kind;
}

Figure Transfers::speed(const RunStatistics& run) {
  const auto bytes = run.run().work.at("bytes").get<double>();
  return {bytes / run[transfers().call_ms].steps.median * 1e-6};
}

Row transfer_row() {
  Row row;
  row.kind = &transfers();
  row.name = row.label = "1 GB";
  row.status = RowStatus::ok;
  row.work = {{"bytes", 1e9}};
  for (int rank = 0; rank < 2; ++rank) {
    RankResult result;
    result.rank = rank;
    result.samples.assign(2, Sample(transfers()));
    for (int step = 0; step < 2; ++step) {
      result.samples[step].step = step;
      result.samples[step][transfers().call_ms] = 100 * (1 + step + rank);
    }
    result.samples[1][transfers().retried] = rank;
    row.ranks.push_back(result);
  }
  row.ranks[1].samples[0][transfers().gap_ms] = 0.5;
  return row;
}

TEST(Kinds, ARowOfAnyKindHasItsColumnsAndStatistics) {
  const std::string table = report_table(TableLines({transfer_row()})).markdown();
  EXPECT_THAT(table, StartsWith("| experiment | call ms | retried | size | GB/s | proof |"));
  EXPECT_THAT(table, HasSubstr("| 1 GB | 250.0 | 1 | 1000 MB | 4.00 | ✗ not checked |"));
  const nlohmann::json json = row_json(transfer_row());
  EXPECT_EQ(json["kind"], "transfers");
  EXPECT_EQ(json["statistics"]["call_ms"]["median"], 250);
  EXPECT_EQ(json["statistics"]["retried"], 1);
  EXPECT_EQ(json["statistics"]["gap_ms"]["count"], 1) << "the steps that have one";
  EXPECT_EQ(json["statistics"]["rank_call_ms"].size(), 2u);
  EXPECT_EQ(transfers().in_short(RunStatistics(transfer_row())), "2 calls");
}

TEST(Kinds, SamplesOfAnyKindAreInTheCsvAndComeBackFromJson) {
  const Row row = transfer_row();
  EXPECT_EQ(steps_csv({row}),
            "row,label,run,emulated,rank,step,warmup,call_ms,retried,gap_ms\n"
            "1,1 GB,1,0,0,0,0,100.000000,0,\n"
            "1,1 GB,1,0,0,1,0,200.000000,0,\n"
            "1,1 GB,1,0,1,0,0,200.000000,0,0.500000\n"
            "1,1 GB,1,0,1,1,0,300.000000,1,\n");
  const nlohmann::json samples = samples_to_json(row.ranks[1].samples);
  EXPECT_EQ(samples.dump(), R"({"call_ms":[200.0,300.0],"gap_ms":[0.5,null],)"
                            R"("retried":[false,true],"step":[0,1],"warmup":[false,false]})");
  EXPECT_EQ(samples_to_json(samples_from_json(samples, transfers())), samples);
}

TEST(Kinds, StandTogetherInOneTable) {
  const std::vector<Row> rows = {known_row("a"), transfer_row()};
  const std::string table = report_table(TableLines(rows)).markdown();
  EXPECT_THAT(table, HasSubstr("| step ms |"));
  EXPECT_THAT(table, HasSubstr("| call ms | retried | size | GB/s | proof |"));
  EXPECT_THAT(table, HasSubstr("| – | – | – | – | ✓ proved |"));
  EXPECT_THAT(steps_csv(rows), HasSubstr(",skipped,call_ms,retried,gap_ms\n"));
}

TEST(Kinds, ARowWhoseMemoryRanOutHasWhatIsKnownBeforeItRuns) {
  std::vector<Row> rows = {transfer_row(), transfer_row()};
  Row& ended = rows[1];
  ended.label = "ended";
  ended.ranks.clear();
  ended.status = RowStatus::out_of_memory;
  ended.reason = "no room";
  const TableLines lines(rows);
  const TextTable table = report_table(lines);
  EXPECT_EQ(lines_of(table.markdown()).back(),
            "| ended |  |  | 1000 MB | out of memory: no room |  |");
  EXPECT_EQ(lines_of(table.chosen({"call ms"}).markdown()).back(),
            "| ended | out of memory: no room |");
  EXPECT_THAT(summary_csv(lines), HasSubstr("\n2,ended,all,size,bytes,1000000000,,,,,\n"));
  EXPECT_EQ(table_json(lines)[1]["figures"].dump(), R"({"size":1000000000.0})");

  const std::vector<SweptValues> points = {{{"where", "here"}, {"run", "1"}},
                                           {{"where", "here"}, {"run", "2"}}};
  EXPECT_EQ(
      lines_of(pivot_table({{"where"}, {"run"}, {"size", "call ms"}}, points, lines).markdown())
          .back(),
      "| here | 1000 MB | 250.0 | 1000 MB | out of memory |");

  ended.status = RowStatus::failed;
  EXPECT_EQ(lines_of(report_table(lines).markdown()).back(),
            "| ended | failed: no room |  |  |  |  |");
}

TEST(Kinds, AreFoundByName) {
  EXPECT_EQ(&kind_named("training"), &training());
  EXPECT_THROW(kind_named("transfers"), Error);
}

}  // namespace
}  // namespace ddprun::test
