// The kind of experiment `collectives` as a user meets it: tables and files, refusals.
#include "support/ddprun_command.h"

namespace ddprun::test::collectives_test {
namespace {

const std::string kQuick =
    "experiment: collectives\n"
    "world: {size: 2, backend: shm}\n"
    "collectives: {bytes: 1000}\n"
    "repeat: {warmup: 1, count: 5, seconds: 5}\n";

TEST(Collectives, ASweepOverBackendsAndSizesIsATableWithLinesBelow) {
  TemporaryFolder folder("sizes.yaml",
                         kQuick +
                             "sweep:\n"
                             "  world.backend: [gloo, shm]\n"
                             "  collectives.bytes: {from: 1000, to: 100000, factor: 10}\n");
  const CommandResult run = must_run(folder, {"sizes.yaml"});
  EXPECT_THAT(run.out, AllOf(HasSubstr("proved in 6 of 6 rows: every element right before the "
                                       "timing, every element right after it"),
                             HasSubstr("gloo, all_reduce, float32, sum"),
                             HasSubstr("the line through 3 sizes")));
  const json result = result_of(folder, "sizes");
  ASSERT_EQ(result["findings"].size(), 2u);
  EXPECT_EQ(result["findings"][1]["backend"], "shm");
  EXPECT_EQ(result["findings"][1]["points"], 3);
  const json& last = result["rows"][5];
  EXPECT_EQ(last["kind"], "collectives");
  EXPECT_EQ(last["work"]["bytes"], 100000);
  EXPECT_EQ(last["statistics"]["time_us"]["count"], 5);
  EXPECT_EQ(last["statistics"]["wrong"], 0);
  EXPECT_EQ(last["ranks"][1]["samples"]["step"].size(), 6u) << "every sample, warm-up included";
  const auto file = [&](const char* name) {
    return read_file(only_result(folder, "sizes") / name);
  };
  EXPECT_THAT(file("summary.csv"),
              AllOf(StartsWith("row,label,run,quantity,unit,figure,mean,std,median,p95,n\n"),
                    HasSubstr(",wrong,,0,,,,,\n")));
  EXPECT_THAT(file("summary.tex"),
              AllOf(StartsWith("\\begin{tabular}{"), HasSubstr("\\toprule"),
                    HasSubstr("time $\\mu$s"), HasSubstr("\\bottomrule"),
                    HasSubstr("% too wide for a page with: backend, collective, ")));
  EXPECT_THAT(file("summary.md"), HasSubstr("Times in microseconds, of the slowest rank"));
  EXPECT_THAT(file("steps.csv"), HasSubstr(",warmup,time_us,wrong,ranks_per_core\n"));
}

TEST(Collectives, HaveNothingToVerify) {
  TemporaryFolder folder("one.yaml", kQuick);
  EXPECT_THAT(refusal_of(folder, {"verify", "one.yaml"}),
              HasSubstr("experiment collectives has nothing to verify"));
}

TEST(Collectives, MoreBuffersThanMemoryMakeARowThatIsNotHereAndTheOthersRun) {
  TemporaryFolder folder("sizes.yaml",
                         kQuick + "sweep: {collectives.bytes: [1000, 900000000000]}\n");
  const CommandResult run = must_run(folder, {"sizes.yaml"});
  EXPECT_THAT(run.out, AllOf(HasSubstr("not here: "), HasSubstr("exceed this machine's free"),
                             HasSubstr("proved in 1 of 1 row")));
}

TEST(Collectives, MoreRanksThanCoresAreSaid) {
  TemporaryFolder folder("many.yaml", kQuick);
  const CommandResult run =
      must_run(folder, {"many.yaml", "--set", "world.size=4"}, {"/usr/bin/taskset", "-c", "0"});
  EXPECT_THAT(run.out, HasSubstr("more ranks than cores: 4 ranks, 4 a core"));
}

}  // namespace
}  // namespace ddprun::test::collectives_test
