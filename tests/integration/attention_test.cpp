// The kind of experiment `attention` as a user meets it: rows and files, a proof that fails, memory
// that ends, refusals.
#include "support/ddprun_command.h"
#include "support/sanitizers.h"

namespace ddprun::test {
namespace {

const std::string kQuick =
    "experiment: attention\n"
    "attention: flash\n"
    "attention_call: {batch: 2, length: 64, head_dim: 16}\n"
    "repeat: {warmup: 1, count: 5, seconds: 5}\n";

TEST(AttentionExperiment, ASweepOverAttentionsIsATableWithItsProof) {
  TemporaryFolder folder("lengths.yaml",
                         kQuick +
                             "sweep:\n"
                             "  attention: [eager, {name: sdpa, backend: math}, flash]\n"
                             "  attention_call.length: [64, 256]\n"
                             "report: {baseline: {attention: eager}}\n");
  const CommandResult run = must_run(folder, {"lengths.yaml"});
  EXPECT_THAT(run.out, AllOf(HasSubstr("proved in 6 of 6 rows: output against float64"),
                             HasSubstr("flash, float32, batch 2"), HasSubstr("as length^")));
  const json result = result_of(folder, "lengths");
  EXPECT_EQ(result["findings"].size(), 3u);
  const json& last = result["rows"][5];
  EXPECT_EQ(last["kind"], "attention");
  EXPECT_EQ(last["statistics"]["time_ms"]["count"], 5);
  EXPECT_EQ(last["ranks"][0]["samples"]["step"].size(), 6u) << "every sample, warm-up included";
  EXPECT_LT(last["statistics"]["error"]["median"], 2e-5);
  const auto file = [&](const char* name) {
    return read_file(only_result(folder, "lengths") / name);
  };
  EXPECT_THAT(file("summary.md"),
              AllOf(HasSubstr("| speed-up |"), HasSubstr("sdpa, backend math")));
  EXPECT_THAT(file("steps.csv"), HasSubstr(",warmup,time_ms,forward_ms,backward_ms,"));
}

TEST(AttentionExperiment, OneWrongRowFailsItsProofAndIsNotTimed) {
  TemporaryFolder folder("planted.yaml", kQuick + "plugin_path: [" DDPRUN_BUILD_DIR
                                                  "/tests/plugins/planted]\n"
                                                  "sweep:\n"
                                                  "  attention:\n"
                                                  "    - flash\n"
                                                  "    - {name: planted, fault: dv, row: 63}\n"
                                                  "    - {name: planted, fault: nothing}\n");
  must_end(1, folder, {"planted.yaml"});
  const json rows = rows_of(folder, "planted");
  EXPECT_EQ(rows[0]["status"], "ok");
  EXPECT_EQ(rows[1]["status"], "proof failed");
  EXPECT_THAT(rows[1]["reason"].get<std::string>(),
              AllOf(HasSubstr("dv"), HasSubstr("batch 1, head 0, row 63"),
                    HasSubstr("(nothing was timed)")));
  EXPECT_EQ(rows[1].value("ranks", json::array()).size(), 0u);
  EXPECT_EQ(rows[2]["status"], "ok") << "the plugin is right without its fault";
}

TEST(AttentionExperiment, UnderALimitOneAttentionRunsOutOfMemoryWhereAnotherRuns) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer's allocator ends the process";
  TemporaryFolder folder("limit.yaml",
                         kQuick + "sweep: {attention: [eager, flash]}\nreport: {repeats: 2}\n");
  // The limit is what was asked about: no failure.
  const CommandResult run =
      must_run(folder, {"limit.yaml", "--columns", "0", "--set", "world.memory_limit_gb=1", "--set",
                        "attention_call.length=8192", "--set", "repeat.count=3"});
  const json rows = rows_of(folder, "limit");
  EXPECT_EQ(rows[0]["status"], "out of memory") << rows[0]["reason"];
  EXPECT_THAT(rows[0]["reason"].get<std::string>(),
              AllOf(HasSubstr("world.memory_limit_gb"),
                    HasSubstr("\n  hint: a shorter length, or another attention")));
  EXPECT_EQ(rows[1]["status"], "not run") << "it would end as its first run did";
  EXPECT_EQ(rows[2]["status"], "ok") << rows[2]["reason"];

  // What it would have taken is known: two sequences of 8192 x 8192 scores, in float32.
  const auto scores = 2 * 8192.0 * 8192 * 4;
  const json table = result_of(folder, "limit")["table"];
  EXPECT_GE(table[0]["figures"]["scores_bytes"], scores);
  EXPECT_GE(table[0]["figures"]["peak_formula_bytes"], scores);
  EXPECT_FALSE(table[0]["figures"].contains("peak_bytes")) << "nothing was measured";
  EXPECT_LT(table[1]["figures"]["peak_formula_bytes"], scores / 10);
  EXPECT_THAT(read_file(only_result(folder, "limit") / "summary.csv"),
              AllOf(HasSubstr("1,eager,all,scores_bytes,bytes,"),
                    Not(HasSubstr("1,eager,all,peak_bytes,"))));
  EXPECT_THAT(run.out, ContainsRegex("\neager +3[.]1 .*[0-9] +out of memory: "));

  const CommandResult again =
      must_run(folder, {"limit.yaml", "--resume", "--set", "world.memory_limit_gb=1", "--set",
                        "attention_call.length=8192", "--set", "repeat.count=3"});
  EXPECT_THAT(again.err, AllOf(HasSubstr("taken over from"), Not(HasSubstr("starting"))));
  EXPECT_THAT(again.out, HasSubstr("out of memory: "));
  EXPECT_FALSE(only_result(folder, "limit").empty()) << "and no other";
}

}  // namespace
}  // namespace ddprun::test
