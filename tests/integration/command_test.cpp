// The commands of ddprun from outside: exit status, messages, results.
#include <algorithm>

#include "support/ddprun_command.h"
#include "support/joined_launch.h"

namespace ddprun::test {
namespace {

TEST(Command, ASweepGivesATableAndACompleteResult) {
  TemporaryFolder folder("pair.yaml", tiny_experiment("sweep: {train.batch_per_rank: [2, 4]}\n"));
  const CommandResult run = must_run(folder, {"pair.yaml"});
  EXPECT_THAT(run.out,
              AllOf(HasSubstr("train.batch_per_rank"), HasSubstr("✓ proved"),
                    HasSubstr("proved in 2 of 2 rows"), HasSubstr("results: results/pair/")));
  EXPECT_THAT(run.out + run.err, Not(HasSubstr("\033")));  // no terminal: no escape sequences

  const std::filesystem::path result = only_result(folder, "pair");
  for (const char* file :
       {"experiment.yaml", "resolved/01.yaml", "resolved/02.yaml", "summary.md"}) {
    EXPECT_TRUE(std::filesystem::file_size(result / file) > 0) << file;
  }
  EXPECT_EQ(std::filesystem::read_symlink(folder.path() / "results/pair/latest"),
            result.filename());
  const std::string csv = read_file(result / "steps.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + 2 * 2 * 4);  // rows x ranks x steps

  const json json = result_of(folder, "pair");
  EXPECT_EQ(json["schema_version"], 17);
  EXPECT_EQ(json["command_line"][1], "pair.yaml");
  EXPECT_TRUE(json["environment"].contains("torch"));
  EXPECT_EQ(json["environment"]["backend"], "shm (auto: all ranks (2) are on this host)");
  ASSERT_EQ(json["rows"].size(), 2u);
  const auto& row = json["rows"][1];
  EXPECT_EQ(row["status"], "ok");
  EXPECT_EQ(row["config"]["train"]["batch_per_rank"], 4);
  EXPECT_EQ(row["ranks"].size(), 2u);
  EXPECT_EQ(row["statistics"]["step_ms"]["count"], 3);
  EXPECT_EQ(row["proof"]["status"], "passed");
  EXPECT_EQ(row["statistics"]["collectives"]["mean"], 1.0);
  must_run(folder, {"validate", result / "resolved/02.yaml"});
}

TEST(Command, QuietSaysNothingButTheTable) {
  TemporaryFolder folder("one.yaml", tiny_experiment());
  EXPECT_EQ(must_run(folder, {"run", "one.yaml", "--quiet", "--output", "elsewhere"}).err, "");
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "elsewhere/one/latest/result.json"));
}

TEST(Command, ARowThatDivergedSaysSoAndKeepsItsFigures) {
  TemporaryFolder folder("one.yaml", tiny_experiment());
  const CommandResult run = must_end(1, folder, {"one.yaml", "--set", "optimizer.lr=1e38"});
  EXPECT_THAT(run.out, AllOf(HasSubstr("✓ proved"), HasSubstr("DIVERGED: "), HasSubstr("nan")));
  const json row = rows_of(folder, "one")[0];
  EXPECT_EQ(row["status"], "diverged");
  EXPECT_THAT(row["reason"].get<std::string>(), HasSubstr("the loss was nan in step "));
  EXPECT_EQ(row["statistics"]["step_ms"]["count"], 3);
}

TEST(Command, SetReplacesAValue) {
  TemporaryFolder folder("one.yaml", tiny_experiment());
  must_run(folder,
           {"--set", "train.steps=7", "--set", "world={size: 1, threads_per_rank: 1}", "one.yaml"});
  const json row = rows_of(folder, "one")[0];
  EXPECT_EQ(row["statistics"]["step_ms"]["count"], 7);
  EXPECT_EQ(row["ranks"].size(), 1u);
}

TEST(Command, AMistypedKeyIsRefusedBeforeAnythingRuns) {
  TemporaryFolder folder("good.yaml", tiny_experiment());
  folder.write("bad.yaml", tiny_experiment("optimizer: {lr: 1}\n"));
  const std::string refusal = refusal_of(folder, {"good.yaml", "bad.yaml"});
  EXPECT_THAT(refusal,
              AllOf(HasSubstr("bad.yaml:9:1"), HasSubstr("optimizer"), HasSubstr("optimizer")));
  EXPECT_THAT(refusal, Not(HasSubstr("starting")));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "results"));
}

TEST(Command, AnUnknownPluginIsRefusedWithTheKnownOnes) {
  TemporaryFolder folder("one.yaml", tiny_experiment());
  EXPECT_THAT(refusal_of(folder, {"one.yaml", "--set", "strategy=flatt"}),
              AllOf(HasSubstr("flatt"), HasSubstr("naive")));
}

TEST(Command, OverlapOfTheOptimizerNeedsAStrategyThatReportsRanges) {
  TemporaryFolder folder("one.yaml", tiny_experiment());
  EXPECT_THAT(
      refusal_of(folder, {"one.yaml", "--set", "optimizer.overlap=true"}),
      AllOf(HasSubstr("needs a strategy that reports"), HasSubstr("optimizer.overlap=true")));
  const CommandResult bucketed =
      must_run(folder, {"one.yaml", "--set", "optimizer.overlap=true", "--set",
                        "strategy={name: bucketed, first_bucket_mb: 0, bucket_mb: 0}"});
  EXPECT_THAT(bucketed.out, HasSubstr("✓ proved"));
}

TEST(Command, InAFolderAFailingFileIsARowAndTheRestGoesOn) {
  TemporaryFolder folder("batch/a.yaml", tiny_experiment("unknown: 1\n"));
  folder.write("batch/b.yaml", tiny_experiment("name: b\n"));
  folder.write("batch/c.yaml", tiny_experiment());
  folder.write("batch/d.yaml", tiny_experiment());
  const CommandResult run = must_end(1, folder, {"batch/"});
  EXPECT_THAT(run.out, AllOf(HasSubstr("failed:"), HasSubstr("proved in 3 of 3 rows")));
  EXPECT_EQ(rows_of(folder, "b")[0]["status"], "ok");
  EXPECT_EQ(rows_of(folder, "d")[0]["status"], "ok");
  EXPECT_TRUE(only_result(folder, "a").empty());
}

TEST(Command, ARowThatFailsInItsRanksLeavesTheOthersAlone) {
  TemporaryFolder folder("mixed.yaml",
                         tiny_experiment("sweep: {world.interface: [no_such_if, lo]}\n"));
  must_end(1, folder, {"mixed.yaml", "--set", "world.backend=gloo"});
  const json rows = rows_of(folder, "mixed");
  EXPECT_EQ(rows[0]["status"], "failed");
  EXPECT_THAT(rows[0]["reason"].get<std::string>(),
              AllOf(HasSubstr("rank "), HasSubstr("no_such_if")));
  EXPECT_EQ(rows[1]["status"], "ok");
}

TEST(Command, DataThatCannotBeReadIsRefusedBeforeAnyRankStarts) {
  TemporaryFolder folder("short.txt", "too short");
  folder.write("e.yaml", tiny_experiment("sweep:\n  data:\n    - {source: random}\n"
                                         "    - {source: text, path: [short.txt]}\n"));
  EXPECT_THAT(refusal_of(folder, {"e.yaml"}),
              AllOf(HasSubstr("too short for one sample"), HasSubstr("e.yaml:12:22: "),
                    HasSubstr("short.txt"), HasSubstr("in the sweep at data="),
                    Not(HasSubstr("starting"))));
}

TEST(Command, ARefusedLibraryIsWarnedOfOnce) {
  TemporaryFolder folder("plugins/broken.so", "no library");
  folder.write("pair.yaml", tiny_experiment("sweep: {train.steps: [1, 2]}\n"));
  const CommandResult run = must_run(folder, {"validate", "pair.yaml", "--plugin-path", "plugins"});
  const std::size_t first = run.err.find("plugin library refused: ");
  ASSERT_NE(first, std::string::npos) << run.err;
  EXPECT_THAT(run.err, HasSubstr("broken.so"));
  EXPECT_EQ(run.err.find("plugin library refused: ", first + 1), std::string::npos) << run.err;
}

TEST(Command, AMistypedCommandOrOptionIsCorrected) {
  TemporaryFolder folder;
  EXPECT_THAT(refusal_of(folder, {"lsit"}), HasSubstr("did you mean `ddprun list`?"));
  EXPECT_THAT(refusal_of(folder, {"e.yaml", "--formt", "json"}),
              AllOf(HasSubstr("error: unexpected argument"), HasSubstr("where: ddprun run"),
                    HasSubstr("got: --formt"), HasSubstr("did you mean '--format'?")));
  EXPECT_THAT(refusal_of(folder, {"list", "flat"}),
              AllOf(HasSubstr("error: unexpected argument"), HasSubstr("got: flat"),
                    HasSubstr("`ddprun list --help`")));
  EXPECT_THAT(refusal_of(folder, {"compare"}),
              AllOf(HasSubstr("got: results is required"), HasSubstr("`ddprun compare --help`")));
}

TEST(Command, JoinsALaunchAndOnlyRankZeroReports) {
  Launch launch(2, {}, tiny_experiment("sweep: {train.batch_per_rank: [2, 4]}\n"));
  const auto ranks = launch.start_all({"one.yaml"});
  launch.expect_all(0, _, 60);
  EXPECT_THAT(ranks[0]->out(), HasSubstr("proved in 2 of 2 rows"));
  EXPECT_EQ(ranks[1]->out() + ranks[1]->err(), "");
  EXPECT_EQ(rows_of(launch.folder(0), "one")[1]["conditions"]["launch"]["launcher"], "torchrun");
  EXPECT_FALSE(std::filesystem::exists(launch.folder(1).path() / "results"));
}

/// A model of 2^40 elements a matrix, which no machine holds, between others.
std::string with_a_row_too_large() {
  return tiny_experiment("sweep: {model.d_model: [32, 1048576, 64]}\n");
}
/// Keeps the embedding of such a model small: it is made before the matrices. And lets the run
/// start.
const Words kFewTokens = {"model.vocab_size=16", "world.memory_check=false"};

TEST(Command, ARowWithoutMemoryIsARowAndTheNextOneRuns) {
  for (const char* backend : {"gloo", "shm"}) {
    TemporaryFolder folder("three.yaml", with_a_row_too_large());
    must_end(
        1, folder,
        with_sets({"three.yaml", "--set", std::string("world.backend=") + backend}, kFewTokens));
    const json rows = rows_of(folder, "three");
    EXPECT_EQ(rows[0]["status"], "ok");
    EXPECT_EQ(rows[1]["status"], "out of memory") << rows[1]["reason"];
    EXPECT_THAT(rows[1]["reason"].get<std::string>(),
                AllOf(HasSubstr("tried to allocate "), HasSubstr("available"),
                      HasSubstr("\n  hint: a smaller batch, context or model")));
    EXPECT_EQ(rows[2]["status"], "ok") << rows[2]["reason"];
  }
}

TEST(Command, RanksOfAJoinedLaunchGoOnAfterARowWithoutMemory) {
  Launch launch(2, {}, with_a_row_too_large());
  launch.start_all(with_sets({"one.yaml"}, kFewTokens));
  launch.expect_all(1, _, 90);
  const json rows = rows_of(launch.folder(0), "one");
  EXPECT_EQ(rows[1]["status"], "out of memory") << rows[1]["reason"];
  EXPECT_EQ(rows[2]["status"], "ok") << rows[2]["reason"];
}

TEST(Command, OneRankWithoutMemoryIsTheRowOfAll) {
  Launch launch(2, {}, tiny_experiment("sweep: {model.d_ff: [1000000, 64]}\n"));
  launch.start(0, {"one.yaml", "--set", kFewTokens[0]});
  // Parameters and gradients of the first row take 0.8 GB, and LibTorch as much.
  launch.start(1, {"one.yaml", "--set", kFewTokens[0]}, {}, after("ulimit -v 2000000"));
  launch.expect_all(1, _, 90);
  const json rows = rows_of(launch.folder(0), "one");
  EXPECT_EQ(rows[0]["status"], "out of memory") << rows[0]["reason"];
  EXPECT_THAT(rows[0]["reason"].get<std::string>(),
              AllOf(HasSubstr("rank 1 failed"), HasSubstr("limited to 1.91 GiB (ulimit -v)")));
  EXPECT_NE(rows[1]["status"], "not run") << rows[1]["reason"];
}

TEST(Command, TellsWhatThereIs) {
  TemporaryFolder folder;
  const CommandResult version = must_run(folder, {"--version"});
  for (const char* part : {"ddprun ", "\ntorch ", "\ngloo ", "\ncompiler ", "\nbuild "}) {
    EXPECT_THAT(version.out, HasSubstr(part));
  }
  EXPECT_THAT(run_ddprun(folder, {"list"}).out, AllOf(HasSubstr("strategy"), HasSubstr("flat")));
  EXPECT_THAT(run_ddprun(folder, {"describe", "train"}).out, HasSubstr("warmup_steps"));
  EXPECT_THAT(run_ddprun(folder, {"describe", "bucketed"}).out, HasSubstr("bucket_mb"));
  EXPECT_THAT(run_ddprun(folder, {"describe", "flash", "--python"}).out,
              AllOf(HasSubstr("import ddprun\n"), HasSubstr("pip install torch==")));
  const std::string not_installed = refusal_of(folder, {"--cmake-dir"});
  EXPECT_THAT(not_installed, HasSubstr("cmake --install build/release"));
  const std::string no_python = refusal_of(folder, {"describe", "eager", "--python"});
  EXPECT_THAT(no_python, HasSubstr("it has no library for Python"));
  EXPECT_THAT(refusal_of(folder, {"describe", "bucketted"}), HasSubstr("did you mean 'bucketed'?"));
}

TEST(Command, WrongUsageIsStatusTwo) {
  TemporaryFolder folder;
  must_end(2, folder, {"--no-such-option"});
  must_end(2, folder, {"missing.yaml"});
  must_end(2, folder, {"verify"});
  for (const auto& [command, option] : {std::pair("tune", "--minutes"),
                                        {"verify", "--bound"},
                                        {"diff", "--ulp"},
                                        {"sample", "--top-p"}}) {
    for (const std::string value : {"nan", "1e999"}) {
      EXPECT_THAT(refusal_of(folder, {command, "a", option, value}),
                  HasSubstr(value + " is no finite number"));
    }
  }
  for (const auto& [command, option] :
       {std::pair("verify", "--bound"), {"verify", "--parameter-bound"}, {"diff", "--ulp"}}) {
    EXPECT_THAT(refusal_of(folder, {command, "a", option, "-1"}),
                HasSubstr(std::string("got: ") + option + ": -1 is below 0\n"));
  }
  EXPECT_THAT(refusal_of(folder, {""}), HasSubstr("\n  where: the command line\n"));
  for (const auto& [command, option] : {std::pair("run", "--output"),
                                        {"compare", "--threshold"},
                                        {"account", "--memory"},
                                        {"verify", "--bound"}}) {
    EXPECT_THAT(refusal_of(folder, {command, "a", option, ""}),
                HasSubstr(std::string(option) + ": an empty value"));
  }
  const CommandResult help = must_run(folder, {"--help"});
  EXPECT_THAT(help.out, AllOf(HasSubstr("Examples:"), HasSubstr("Exit status")));
}

}  // namespace
}  // namespace ddprun::test
