// Rows say under which conditions they were measured, and are compared with their like.
#include <fstream>

#include "support/ddprun_command.h"

namespace ddprun::test::conditions_test {
namespace {

namespace fs = std::filesystem;

/// A sweep of which the first row is measured before all.
void begin_sweep(const TemporaryFolder& folder, const std::string& line,
                 const std::string& more = {}) {
  folder.write("two.yaml", tiny_experiment("sweep: {strategy: [naive, flat]}\n" + more));
  must_run(folder, {"two.yaml", "--set", "sweep.strategy=[naive]"}, after(line));
}

TEST(Conditions, WhatFellBackToAnotherBackendRunsAgain) {
  TemporaryFolder folder;
  begin_sweep(folder, "ulimit -f 1024");  // less than the memory that ranks share
  const json fallen = rows_of(folder, "two")[0];
  EXPECT_EQ(fallen["conditions"]["ranks"]["backend"], "gloo, after another was refused");
  EXPECT_THAT(read_file(only_result(folder, "two") / "summary.md"),
              HasSubstr("FELL BACK: naive: gloo (auto: shared memory cannot join"));

  const CommandResult both = must_run(folder, {"two.yaml", "--resume"});
  EXPECT_THAT(both.err, AllOf(HasSubstr("[1/2] naive: taken over"),
                              HasSubstr("[1/2] naive: runs again: backend: gloo, after another was "
                                        "refused then, shm now"),
                              HasSubstr("[1/2] naive: starting")));
  EXPECT_THAT(both.out, AllOf(Not(HasSubstr("FELL BACK")), Not(HasSubstr("measured earlier"))));
  EXPECT_THAT(run_ddprun(folder, {"two.yaml", "--resume"}).err, Not(HasSubstr("starting")));
}

TEST(Conditions, AnotherEnvironmentRunsAgain) {
  TemporaryFolder folder;
  begin_sweep(folder, "export MALLOC_ARENA_MAX=1");
  EXPECT_EQ(result_of(folder, "two")["environment"]["MALLOC_ARENA_MAX"], "1");
  const CommandResult other = must_run(folder, {"two.yaml", "--resume"});
  EXPECT_THAT(other.err, AllOf(HasSubstr("naive: runs again: MALLOC_ARENA_MAX: 1 then, none now"),
                               Not(HasSubstr("taken over"))));
  const CommandResult same =
      must_run(folder, {"two.yaml", "--resume"}, {"/usr/bin/env", "MALLOC_ARENA_MAX=1"});
  EXPECT_THAT(same.err, AllOf(HasSubstr("naive: taken over"), HasSubstr("flat: runs again")));
}

TEST(Conditions, AnotherLibraryOfAPluginRunsAgain) {
  TemporaryFolder folder;
  fs::create_directories(folder.path() / "own");
  const fs::path library = folder.path() / "own/libmine.so";
  fs::copy_file(DDPRUN_BUILD_DIR "/lib/ddprun/plugins/strategy_flat.so", library);
  folder.write("one.yaml", tiny_experiment());
  const Words words = {"one.yaml", "--plugin-path", "own", "--resume"};
  must_run(folder, words);
  EXPECT_THAT(run_ddprun(folder, words).err, HasSubstr("taken over"));
  std::ofstream(library, std::ios::app) << "rebuilt";
  EXPECT_THAT(
      run_ddprun(folder, words).err,
      AllOf(HasSubstr("runs again: plugin strategy flat: version "), HasSubstr("starting")));
}

TEST(Conditions, ARunThatIsDoneStaysUnderOtherConditions) {
  TemporaryFolder folder("one.yaml", tiny_experiment());
  const Words words = {"one.yaml", "--resume",
                       "--set",    "train.resume_from=latest",
                       "--set",    "train.checkpoint={every: 2, path: saved}"};
  must_run(folder, words);
  const CommandResult again = must_run(folder, words, {"/usr/bin/env", "MALLOC_ARENA_MAX=1"});
  EXPECT_THAT(again.err, AllOf(HasSubstr("one: cannot run again, and stays: MALLOC_ARENA_MAX: none "
                                         "then, 1 now"),
                               HasSubstr("one: taken over from "), Not(HasSubstr("starting"))));
  EXPECT_THAT(again.out, HasSubstr("proved in 1 of 1 row"));
}

TEST(Conditions, WhatWasMeasuredEarlierIsNotTested) {
  TemporaryFolder folder;
  begin_sweep(folder, "true", "report: {repeats: 3}\n");
  EXPECT_THAT(must_run(folder, {"two.yaml", "--resume"}).out,
              AllOf(HasSubstr("measured earlier, and not in turn with the others: naive: "),
                    HasSubstr("in results/two/"), HasSubstr("measured at different times"),
                    Not(HasSubstr("took turns")), Not(HasSubstr("p = ")), Not(HasSubstr("p < "))));
}

TEST(Conditions, AProgramBesideARowIsSeen) {
  TemporaryFolder folder("one.yaml", tiny_experiment({}, 300));
  const CommandResult run =
      must_run(folder, {"one.yaml"},
               by_shell("for i in $(seq $(nproc)); do (while :; do :; done) & done; "
                        "\"$0\" \"$@\"; status=$?; kill $(jobs -p); exit $status"));
  const json load = rows_of(folder, "one")[0]["load"];
  if (load["sees"] != "the machine") GTEST_SKIP() << "/proc/stat sees " << load["sees"];
  EXPECT_GT(load["others"].get<double>(), 0.05);
  EXPECT_THAT(run.out, HasSubstr("BUSY: another program took "));
}

TEST(Conditions, AQuotaThatHoldsARowBackIsSeen) {
  TemporaryFolder folder("one.yaml", tiny_experiment({}, 300));
  const CommandResult run = run_ddprun(folder, {"one.yaml"}, by_shell(R"(
    group=/sys/fs/cgroup/cpu/ddprun-test-$$; quota=cpu.cfs_quota_us
    [ -d /sys/fs/cgroup/cpu ] || { group=/sys/fs/cgroup/ddprun-test-$$; quota=cpu.max; }
    mkdir $group && echo 30000 > $group/$quota || { rmdir $group; exit 77; }
    (echo $BASHPID > $group/cgroup.procs || exit 77; exec "$0" "$@"); status=$?
    rmdir $group; exit $status)"));
  if (run.status == 77) GTEST_SKIP() << "no cgroup can be made here: " << run.err;
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_GT(rows_of(folder, "one")[0]["load"]["throttled"].get<double>(), 0.01);
  EXPECT_THAT(run.out, HasSubstr("BUSY: the cgroup's quota took "));
}

}  // namespace
}  // namespace ddprun::test::conditions_test
