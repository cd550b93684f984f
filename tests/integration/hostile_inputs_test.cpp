// Files, values and environments that used to hang the program, abort it, or be blamed on something
// else: each ends in a sentence.
#include <sys/stat.h>

#include "support/ddprun_command.h"

namespace ddprun::test {
namespace {

namespace fs = std::filesystem;

std::string with_data(const std::string& data) {
  return replaced(tiny_experiment(), "{source: random}", data);
}

TEST(HostileInputs, APipeIsRefusedWhereverAFileIsRead) {
  TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder.path() / "fifo.yaml").c_str(), 0600), 0);
  folder.write("resumed.yaml", tiny_experiment());
  fs::create_directories(folder.path() / "results/resumed/earlier");
  ASSERT_EQ(::mkfifo((folder.path() / "results/resumed/earlier/result.json").c_str(), 0600), 0);
  EXPECT_THAT(refusal_of(folder, {"validate", "fifo.yaml"}), HasSubstr("a named pipe, not a file"));
  EXPECT_THAT(run_ddprun(folder, {"resumed.yaml", "--resume"}).err,
              HasSubstr("a named pipe, not a file"));
}

TEST(HostileInputs, DataThatChangesDuringARunFailsTheRunInWords) {
  TemporaryFolder folder("tokens.bin", std::string(200'000, '\0'));
  folder.write("cut.yaml", with_data("{source: tokens, path: tokens.bin}"));
  DdprunProcess run(folder, {"-v", "cut.yaml", "--set", "train.steps=1000000"});
  ASSERT_TRUE(run.trains(2)) << run.err();
  fs::resize_file(folder.path() / "tokens.bin", 1'000);
  EXPECT_EQ(run.wait(), 1);
  EXPECT_THAT(run.err(), AllOf(HasSubstr("the data changed while the run read it"),
                               HasSubstr("tokens.bin"), HasSubstr("200,000 bytes at first")));
}

TEST(HostileInputs, ADeletedFolderIsSaid) {
  TemporaryFolder folder("a.yaml", tiny_experiment());
  const std::string gone = folder.path() / "gone";
  EXPECT_THAT(refusal_of(folder, {folder.path() / "a.yaml"},
                         after("mkdir " + gone + " && cd " + gone + " && rmdir " + gone)),
              HasSubstr("error: ddprun cannot start: the current folder is not there any more"));
}

TEST(HostileInputs, WantOfMemoryOrOfStackIsSaid) {
  TemporaryFolder folder("a.yaml", tiny_experiment());
  const auto error = [&](const std::string& limit) {
    return must_end(1, folder, {"validate", "a.yaml"}, after(limit)).err;
  };
  EXPECT_THAT(
      error("ulimit -v 400000"),
      AllOf(HasSubstr("error: ddprun cannot start: memory ran out"), HasSubstr("ulimit -v")));
  EXPECT_THAT(error("ulimit -s 64"), AllOf(HasSubstr("error: ddprun cannot start: the stack"),
                                           HasSubstr("512 KiB"), HasSubstr("ulimit -s")));
}

TEST(HostileInputs, ValidatingADeepModelTakesNoMemory) {
  TemporaryFolder folder("a.yaml", tiny_experiment());
  must_run(folder, {"validate", "a.yaml", "--set", "model.layers=16000000"},
           after("ulimit -d 1000000"));
}

TEST(HostileInputs, ANewLineInANameIsShownEscaped) {
  TemporaryFolder folder("a.yaml", tiny_experiment());
  for (const std::string key : {"name", "strategy"}) {
    EXPECT_THAT(refusal_of(folder, {"validate", "a.yaml", "--set", key + R"(="a\n  hint: no")"}),
                HasSubstr(R"(got: a\n  hint: no)"))
        << key;
  }
}

TEST(HostileInputs, AFolderMayHaveAnyName) {
  TemporaryFolder folder("a.yaml", tiny_experiment("sweep: {strategy: [naive, flat]}\n"));
  must_run(folder, {"a.yaml", "--output", "no UTF-8 \xff\n"});
  EXPECT_TRUE(fs::exists(folder.path() / "no UTF-8 \xff\n/a/latest/result.json"));
}

TEST(HostileInputs, WantOfProcIsSaid) {
  TemporaryFolder folder("a.yaml", tiny_experiment());
  const CommandResult run = run_ddprun(folder, {"validate", "a.yaml"},
                                       {"/usr/bin/unshare", "-Urm", "/bin/sh", "-c",
                                        R"(mount -t tmpfs none /proc; exec "$0" "$@")"});
  if (run.status == 1) GTEST_SKIP() << "no namespace to be had: " << run.err;
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, AllOf(HasSubstr("cannot find its own folder"), HasSubstr("/proc")));
}

TEST(HostileInputs, FewDescriptorsAreNotBlamedOnThePort) {
  TemporaryFolder folder("a.yaml", tiny_experiment("", 1));
  EXPECT_THAT(must_end(1, folder, {"a.yaml", "--set", "world.size=4"}, after("ulimit -n 20")).err,
              AllOf(HasSubstr("too few file descriptors"), HasSubstr("ulimit -n"),
                    Not(HasSubstr("MASTER_PORT"))));
}

TEST(HostileInputs, ValuesAreShownShortAndEscaped) {
  TemporaryFolder folder("a.yaml", tiny_experiment());
  folder.write("nul.yaml",
               tiny_experiment(R"("\0\e[2Jkey": "\e[31m)" + std::string(5'000'000, 'x') + "\"\n"));
  EXPECT_THAT(refusal_of(folder, {"validate", "nul.yaml"}),
              AllOf(HasSubstr(R"(\x00\x1b[2Jkey)"), HasSubstr("where: nul.yaml:9"),
                    Not(HasSubstr("\x1b")), SizeIs(testing::Lt(6'000U))));
  EXPECT_THAT(refusal_of(folder, {"--\x1b[31m", "a.yaml"}), Not(HasSubstr("\x1b")));
}

TEST(HostileInputs, APluginThatCrashesWhileItIsAskedIsNamed) {
  TemporaryFolder folder("a.yaml", tiny_experiment());
  EXPECT_THAT(
      refusal_of(folder, {"validate", "a.yaml", "--set", "strategy=misbehaves", "--plugin-path",
                          DDPRUN_BUILD_DIR "/tests/bad_plugins/crashes_when_asked"}),
      AllOf(HasSubstr("a plugin crashed while the experiment was planned"),
            HasSubstr("strategy misbehaves, ")));
}

std::string bad_plugin(const std::string& name) {
  return DDPRUN_BUILD_DIR "/tests/bad_plugins/" + name;
}

TEST(HostileInputs, APluginThatCrashesAtExitTakesNoStatusAlong) {
  TemporaryFolder folder("a.yaml", tiny_experiment());
  const std::string path = bad_plugin("aborts_at_exit_of_all");
  must_run(folder, {"validate", "a.yaml", "--plugin-path", path});
  const CommandResult list = must_run(folder, {"list", "--plugin-path", path});
  EXPECT_THAT(list.out, HasSubstr("misbehaves"));
  EXPECT_THAT(must_run(folder, {"list", "--plugin-path", bad_plugin("throws_at_exit")}).err,
              HasSubstr("the plugin library crashed when it was tried"));
}

TEST(HostileInputs, APluginThatCrashesWhenItIsDestroyedTakesNoRunAlong) {
  TemporaryFolder folder("a.yaml", tiny_experiment());
  const CommandResult run =
      must_run(folder, {"a.yaml", "--set", "strategy=misbehaves", "--set", "world.size=1",
                        "--plugin-path", bad_plugin("aborts_when_destroyed")});
  EXPECT_THAT(run.out, HasSubstr("✓ proved"));
}

}  // namespace
}  // namespace ddprun::test
