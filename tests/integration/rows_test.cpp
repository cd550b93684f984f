// Rows that were done outlive what comes after them; a row that cannot run costs no other.
#include <chrono>
#include <fstream>

#include "support/ddprun_command.h"

namespace ddprun::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> statuses(const json& result) {
  std::vector<std::string> out;
  for (const json& row : result["rows"]) out.push_back(row["status"]);
  return out;
}

const std::vector<std::string> kThirdRuns = {"ok", "failed", "ok"};

TEST(Rows, ARowWithoutDescriptorsIsARowAndTheOthersRun) {
  TemporaryFolder folder("three.yaml", tiny_experiment("sweep: {world.size: [2, 64, 1]}\n"));
  const CommandResult run = must_end(1, folder, {"three.yaml"}, after("ulimit -n 40"));
  EXPECT_THAT(run.out, AllOf(HasSubstr("proved in 2 of 2 rows"), HasSubstr("results: ")));
  EXPECT_THAT(run.out, AnyOf(HasSubstr("failed: the ranks could not be started"),
                             HasSubstr("failed: no file descriptor is left")))
      << "whichever comes first";
  const json result = result_of(folder, "three");
  EXPECT_EQ(statuses(result), kThirdRuns);
  EXPECT_THAT(result["rows"][1]["reason"].get<std::string>(), HasSubstr("Too many open files"));
}

TEST(Rows, ARowWithoutProcessesIsARowAndTheOthersRun) {
  const std::string as_nobody = "setpriv --reuid=65534 --clear-groups ";
  TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms::all);
  if (run_ddprun(folder, {}, by_shell(as_nobody + "\"$0\" --version")).status != 0) {
    GTEST_SKIP() << "needs root (a limit on processes does not hold root), and setpriv";
  }
  folder.write("three.yaml", tiny_experiment("sweep: {world.size: [1, 64, 2]}\n"));
  must_end(1, folder, {"three.yaml"},
           by_shell(as_nobody + R"(bash -c 'ulimit -u 40; exec "$0" "$@"' "$0" "$@")"));
  const json result = result_of(folder, "three");
  EXPECT_EQ(statuses(result), kThirdRuns);
  EXPECT_THAT(result["rows"][1]["reason"].get<std::string>(),
              HasSubstr("Resource temporarily unavailable"));
  // The ranks connect, and gloo has no thread left for one of its own.
  const CommandResult run =
      must_end(1, folder, {"three.yaml", "--set", "sweep={}", "--set", "world.backend=gloo"},
               by_shell(as_nobody + R"(bash -c 'ulimit -u 9; exec "$0" "$@"' "$0" "$@")"));
  EXPECT_THAT(run.err,
              AllOf(HasSubstr("Resource temporarily unavailable"), HasSubstr("`ulimit -u`")));
}

TEST(Rows, AParentThatIgnoresItsChildrenDelaysNothing) {
  TemporaryFolder folder("one.yaml", tiny_experiment());
  const auto begin = std::chrono::steady_clock::now();
  must_run(folder, {"one.yaml"}, after("trap '' CHLD"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(25));
}

TEST(Rows, AReaderThatLeavesTakesNoRow) {
  TemporaryFolder folder("two.yaml", tiny_experiment("sweep: {train.steps: [2, 3]}\n"));
  // The table could not be shown.
  must_end(1, folder, {"two.yaml"}, by_shell(R"(set -o pipefail; "$0" "$@" 2>&1 | head -1)"));
  EXPECT_EQ(statuses(result_of(folder, "two")), (std::vector<std::string>{"ok", "ok"}));
}

TEST(Rows, AReaderThatLeavesEndsWhatOnlyPrints) {
  const TemporaryFolder folder;
  for (const Words& words : {Words{"list"}, {"schema"}, {"describe", "train"}, {"--help"}}) {
    const CommandResult result = must_end(128 + SIGPIPE, folder, words,
                                          by_shell(R"("$0" "$@" | true; exit "${PIPESTATUS[0]}")"));
    EXPECT_EQ(result.err, "") << words[0];
  }
}

TEST(Rows, AnOutputThatIsFullTakesNoRow) {
  TemporaryFolder folder("one.yaml", tiny_experiment());
  EXPECT_THAT(must_end(1, folder, {"one.yaml"}, by_shell(R"(exec "$0" "$@" >/dev/full)")).err,
              HasSubstr("the output could not be written\n  where: stdout\n  got: No space left"));
  EXPECT_EQ(rows_of(folder, "one")[0]["status"], "ok");
  EXPECT_THAT(must_end(1, folder, {"list"}, by_shell(R"(exec "$0" "$@" >&-)")).err,
              HasSubstr("got: Bad file descriptor"));
}

TEST(Rows, AFileThatGrowsTooLargeTakesNoOtherRow) {
  TemporaryFolder folder;
  const Words words = {"two.yaml", "--set", "world.backend=gloo"};
  folder.write("two.yaml", tiny_experiment("sweep: {train.steps: [3, 300]}\n"));
  const CommandResult run = must_end(1, folder, words, after("ulimit -f 64"));
  EXPECT_THAT(run.err, AllOf(HasSubstr("cannot write a result"), HasSubstr("rows/02.json"),
                             HasSubstr("File too large"), HasSubstr("--resume takes them over")));
  EXPECT_THAT(run.out, HasSubstr("proved in 2 of 2 rows"));
  Words resume = words;
  resume.emplace_back("--resume");
  const CommandResult again = must_run(folder, resume);
  EXPECT_THAT(again.err, AllOf(HasSubstr("[1/2] 3: taken over from results/two/"),
                               HasSubstr("[2/2] 300: starting")));
}

TEST(Rows, AKilledParentTakesNoRowThatWasDone) {
  TemporaryFolder folder("two.yaml", tiny_experiment("sweep: {train.steps: [3, 10000000]}\n"));
  DdprunProcess process(folder, {"two.yaml", "-v"});
  ASSERT_TRUE(process.says("[2/2] 10000000: step ")) << process.err();
  kill(process.pid(), SIGKILL);
  EXPECT_EQ(process.wait(10), 1000 + SIGKILL);
  EXPECT_TRUE(eventually(5, [&process] { return process.ranks().empty(); }));
  EXPECT_THAT(must_run(folder, {"two.yaml", "--resume", "--set", "sweep.train.steps=[3, 4]"}).err,
              AllOf(HasSubstr("[1/2] 3: taken over"), HasSubstr("[2/2] 4: starting")));
}

TEST(Rows, ResumeReadsAllResultsBeforeAnythingRuns) {
  TemporaryFolder folder;
  for (const char* name : {"a", "b"}) {
    folder.write(std::string(name) + ".yaml", tiny_experiment());
    must_run(folder, {std::string(name) + ".yaml"});
  }
  fs::remove_all(folder.path() / "results/a");
  const fs::path file = only_result(folder, "b") / "result.json";
  json damaged = json::parse(read_file(file));
  damaged["rows"][0]["ranks"] = json::array();
  std::ofstream(file) << damaged;
  const CommandResult run = must_run(folder, {"a.yaml", "b.yaml", "--resume"});
  EXPECT_THAT(run.err, AllOf(HasSubstr("row 1 of results/b/"), HasSubstr("is damaged"),
                             HasSubstr("it has 0 ranks"), Not(HasSubstr("taken over"))));
  EXPECT_LT(run.err.find("is damaged"), run.err.find("starting")) << run.err;
}

TEST(Rows, TheTableSurvivesAResultThatCannotBeWritten) {
  TemporaryFolder folder("one.yaml", tiny_experiment({}, 1500));
  DdprunProcess process(folder, {"one.yaml", "-v"});
  ASSERT_TRUE(process.trains(2)) << process.err();
  folder.write("results", "a file where the folder should be");
  EXPECT_EQ(process.wait(60), 1) << process.err();
  EXPECT_THAT(process.err(), HasSubstr("results cannot be written there"));
  EXPECT_THAT(process.out(), HasSubstr("✓ proved"));
}

TEST(Rows, ResumeTakesOverWhatIsDone) {
  TemporaryFolder folder("pair.yaml", tiny_experiment());
  must_run(folder, {"pair.yaml"});
  const std::string first = only_result(folder, "pair");
  const CommandResult same = must_run(folder, {"pair.yaml", "--resume"});
  EXPECT_THAT(same.err, AllOf(HasSubstr("taken over from"), Not(HasSubstr("starting"))));
  EXPECT_EQ(only_result(folder, "pair"), first);  // nothing new, nothing written

  EXPECT_THAT(
      must_run(folder, {"pair.yaml", "--resume", "--set", "sweep={train.steps: [3, 4]}"}).err,
      AllOf(HasSubstr("[1/2]"), HasSubstr("taken over"), HasSubstr("[2/2] 4: starting")));
  const auto results = [&folder] {
    const std::filesystem::directory_iterator inside(folder.path() / "results/pair");
    return std::distance(begin(inside), end(inside));
  };
  const auto before = results();
  const CommandResult all =
      run_ddprun(folder, {"pair.yaml", "--resume", "--set", "sweep={train.steps: [3, 4]}"});
  EXPECT_THAT(all.err, Not(HasSubstr("starting")));
  EXPECT_EQ(results(), before);  // rows measured at two times, but one result has them all
}

TEST(Rows, ResumeWritesWhatTheReportAsksForNow) {
  TemporaryFolder folder("one.yaml", tiny_experiment());
  must_run(folder, {"one.yaml"});
  EXPECT_THAT(must_run(folder, {"one.yaml", "--resume", "--set", "report.html=true"}).err,
              AllOf(HasSubstr("taken over from"), Not(HasSubstr("starting"))));
  EXPECT_TRUE(fs::exists(folder.path() / "results/one/latest/report.html"));
}

/// Valid, and of a machine with as many GPUs as no test has.
std::string for_another_machine(const std::string& more = {}) {
  return replaced(replaced(tiny_experiment(more), "{size: 2}", "{size: 1024, device: cuda}"),
                  "heads: 2}", "heads: 2, kernels: reference}");
}

TEST(NotHere, AFileForAnotherMachineIsValid) {
  TemporaryFolder folder("there.yaml", for_another_machine("sweep: {train.steps: [3, 4]}\n"));
  const CommandResult valid = must_run(folder, {"validate", "there.yaml"});
  EXPECT_THAT(valid.out, AllOf(HasSubstr("there.yaml: valid, 2 experiments\n"),
                               HasSubstr("there.yaml: this machine cannot run 2 of them: ")));
  EXPECT_THAT(
      refusal_of(folder, {"validate", "there.yaml", "--set", "strategy={name: flat, typo: 1}"}),
      HasSubstr("unknown key 'typo'"));
}

TEST(NotHere, WhereNothingCanRunTheStatusIsTwo) {
  TemporaryFolder folder("there.yaml", for_another_machine());
  for (const char* command : {"run", "verify"}) {
    EXPECT_THAT(refusal_of(folder, {command, "there.yaml"}),
                AllOf(HasSubstr("error: "), HasSubstr("cuda"), HasSubstr("there.yaml:3:"),
                      HasSubstr("  hint: "), Not(HasSubstr("starting"))));
  }
  EXPECT_FALSE(fs::exists(folder.path() / "results"));
}

TEST(NotHere, InABatchItIsARowAndTheOthersRun) {
  TemporaryFolder folder("batch/a/there.yaml", for_another_machine());
  folder.write("batch/b/here.yaml", tiny_experiment());
  for (const Words& words : {Words{"batch"}, {"batch/a/there.yaml", "batch/b/here.yaml"}}) {
    const CommandResult run = must_run(folder, words);
    EXPECT_THAT(run.out, AllOf(HasSubstr("not here: "), HasSubstr("proved in 1 of 1 row")));
    EXPECT_THAT(run.err, HasSubstr("there: not all of it can run here: "));
    EXPECT_EQ(statuses(result_of(folder, "here")), std::vector<std::string>{"ok"});
    EXPECT_TRUE(only_result(folder, "there").empty());
    fs::remove_all(folder.path() / "results");
  }
}

TEST(Rows, FilesOfOneNameKeepTheirResultsApart) {
  TemporaryFolder folder;
  for (const char* name : {"batch/a/same.yaml", "batch/b/same.yaml"}) {
    folder.write(name, tiny_experiment());
  }
  const CommandResult run = must_run(folder, {"batch/"});
  EXPECT_THAT(run.out, AllOf(HasSubstr("same (batch/a/same.yaml)"),
                             HasSubstr("same (batch/b/same.yaml)"), Not(HasSubstr("speed-up"))));
  std::size_t results = 0;
  for (const auto& entry : fs::directory_iterator(folder.path() / "results/same")) {
    results += entry.is_symlink() ? 0 : 1;
  }
  EXPECT_EQ(results, 2u);
}

TEST(Rows, ASweepOfTwoKeysSaysWhatItsSpeedUpsCountFrom) {
  TemporaryFolder folder("four.yaml",
                         tiny_experiment("sweep: {model.d_model: [32, 64], strategy: [naive, "
                                         "flat]}\n"));
  const CommandResult run = must_run(folder, {"four.yaml"});
  EXPECT_THAT(run.out, HasSubstr("speed-up counts from strategy=naive of the same model.d_model"));
  const json rows = rows_of(folder, "four");
  EXPECT_EQ(rows[3]["baseline"], rows[2]["fingerprint"]);
  EXPECT_EQ(rows[1]["baseline"], rows[0]["fingerprint"]);

  const CommandResult chosen = must_run(
      folder, {"four.yaml", "--resume", "--set", "report={baseline: {model.d_model: 32}}"});
  EXPECT_THAT(chosen.out, HasSubstr("speed-up counts from model.d_model=32 of the same strategy"));
  EXPECT_THAT(chosen.err, Not(HasSubstr("starting"))) << "the base is not part of the experiment";
}

const std::string kRepeated =
    "sweep: {strategy: [naive, flat]}\n"
    "report: {repeats: 3}\n";

TEST(Repeats, RunsOfARowTakeTurnsAndMakeOneLine) {
  TemporaryFolder folder("two.yaml", tiny_experiment(kRepeated));
  const CommandResult run = must_run(folder, {"two.yaml"});
  std::size_t at = 0;
  for (const char* next : {"[1/9] naive, run 1 of 6: starting", "[7/9] flat, run 1 of 3: starting",
                           "[2/9] naive, run 2 of 6: starting", "[3/9] naive, run 3 of 6: starting",
                           "[8/9] flat, run 2 of 3: starting", "[4/9] naive, run 4 of 6: starting",
                           "[5/9] naive, run 5 of 6: starting", "[9/9] flat, run 3 of 3: starting",
                           "[6/9] naive, run 6 of 6: starting"}) {
    at = run.err.find(next, at);
    ASSERT_NE(at, std::string::npos) << next << "\n" << run.err;
  }
  EXPECT_THAT(run.out, AllOf(HasSubstr("proved in 9 of 9 runs"), HasSubstr("95 %: "),
                             HasSubstr("naive, which ran twice in each of 3 rounds, "),
                             HasSubstr("means over up to 6 runs"), HasSubstr("s/1M tokens")));
  const json result = result_of(folder, "two");
  ASSERT_EQ(result["rows"].size(), 9u);
  EXPECT_EQ(result["rows"][7]["repetition"], 2);
  EXPECT_EQ(result["rows"][3]["round"], 2);
  ASSERT_EQ(result["table"].size(), 2u);
  double sum = 0;
  for (const int i : {6, 7, 8}) {
    sum += result["rows"][i]["statistics"]["step_ms"]["median"].get<double>();
  }
  EXPECT_NEAR(result["table"][1]["figures"]["step_ms"].get<double>(), sum / 3, 1e-9 * sum);
  EXPECT_EQ(result["table"][1]["first_row"], 7);

  const CommandResult again = must_run(folder, {"two.yaml", "--resume"});
  EXPECT_THAT(again.err, AllOf(Not(HasSubstr("starting")), HasSubstr("run 3 of 3: taken over")));
  EXPECT_THAT(run_ddprun(folder, {"two.yaml", "--set", "report.aa=false", "--output", "once"}).out,
              AllOf(HasSubstr("proved in 6 of 6 runs"), Not(HasSubstr("ran twice"))));
  EXPECT_THAT(must_run(folder, {"two.yaml", "--resume", "--set", "report.repeats=4"}).err,
              AllOf(HasSubstr("[12/12] flat, run 4 of 4: starting"),
                    Not(HasSubstr("run 3 of 4: starting"))));
}

TEST(Repeats, ARowThatFailedIsNotRunAgain) {
  TemporaryFolder folder("two.yaml",
                         tiny_experiment("sweep: {world.size: [64, 1]}\nreport: {repeats: 2}\n"));
  const CommandResult run = must_end(1, folder, {"two.yaml"}, after("ulimit -n 40"));
  const json result = result_of(folder, "two");
  EXPECT_EQ(statuses(result), (std::vector<std::string>{"failed", "not run", "ok", "ok"}));
  EXPECT_THAT(result["rows"][1]["reason"].get<std::string>(),
              HasSubstr("run 1 of this row: failed: no file descriptor is left"));
  EXPECT_THAT(run.out, HasSubstr("64          failed: no file descriptor is left"));
}

TEST(Scaling, StrongAndWeakAreToldApartByTheTokensOfAStep) {
  TemporaryFolder folder;
  const std::string ranks = "sweep: {world.size: [1, 2]}\n";
  folder.write("weak.yaml", tiny_experiment(ranks));
  const Words weak = {"weak.yaml", "--set", "world.threads_per_rank=1"};
  const auto strong =
      with_sets(weak, {"train={global_batch: 4, warmup_steps: 1, steps: 3}", "name=strong"});
  const CommandResult weak_run = must_run(folder, weak);
  EXPECT_THAT(weak_run.out, AllOf(HasSubstr("weak eff."), Not(HasSubstr("strong eff.")),
                                  HasSubstr("weak scaling: 2 ranks (world.size=2) have ")));
  const CommandResult strong_run = must_run(folder, strong);
  EXPECT_THAT(strong_run.out, AllOf(HasSubstr("strong eff."), Not(HasSubstr("weak eff.")),
                                    HasSubstr("(one run, not tested)")));
}

}  // namespace
}  // namespace ddprun::test
