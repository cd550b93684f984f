// What a newcomer types first: nothing, --help, quickstart, or almost that.
#include "support/ddprun_command.h"

namespace ddprun::test {
namespace {

const std::string kSmall =
    "model={vocab_size: 256, context_length: 16, d_model: 32, d_ff: 64, layers: 1, heads: 2}";

TEST(Quickstart, IsTheShippedFileWithResultsHere) {
  TemporaryFolder folder;
  const CommandResult run =
      must_run(folder, {"quickstart", "--set", kSmall, "--set", "train.steps=2", "--set",
                        "sweep.strategy=[naive, flat]"});
  EXPECT_THAT(run.out, AllOf(HasSubstr("naive"), HasSubstr("proved in 2 of 2 rows"),
                             HasSubstr("results: results/quickstart/")));
  const json result = result_of(folder, "quickstart");
  EXPECT_EQ(result["command_line"][1], "quickstart");
  EXPECT_EQ(result["rows"][0]["config"]["world"]["backend"], "gloo") << "as the file has it";
}

TEST(Quickstart, LearnsFromProseAlone) {
  TemporaryFolder folder;
  const std::string read =
      must_run(folder, {"data", DDPRUN_SOURCE_DIR "/configs/quickstart.yaml", "--set",
                        "train.global_batch=1000", "--set", "sweep.strategy=[naive]"})
          .out;
  EXPECT_THAT(read, HasSubstr("/docs/measurement.md"));
  EXPECT_THAT(groups_of(read, R"(/docs/\S*?\.(\w+))"), Each(std::string("md")));
}

TEST(Quickstart, TakesNoFile) {
  TemporaryFolder folder;
  EXPECT_THAT(refusal_of(folder, {"quickstart", "mine.yaml"}), HasSubstr("mine.yaml"));
}

TEST(Quickstart, AShippedFileThatIsNotHereIsNamedWhereItIs) {
  TemporaryFolder folder;
  const std::string refusal = refusal_of(folder, {"validate", "configs/quickstart.yaml"});
  EXPECT_THAT(refusal,
              AllOf(HasSubstr("no such file or folder"), HasSubstr("it comes with ddprun: /"),
                    HasSubstr("/configs/quickstart.yaml")));
  EXPECT_THAT(run_ddprun(folder, {"validate", "configs/none.yaml"}).err,
              HasSubstr("`ddprun --help` lists them"));
}

TEST(Quickstart, NeedsTheFilesThatComeWithTheProgram) {
  TemporaryFolder folder;
  EXPECT_THAT(
      refusal_of(folder, {}, {"/bin/sh", "-c", "cp \"$0\" alone && exec ./alone quickstart"}),
      AllOf(HasSubstr("a file that comes with ddprun is not there"),
            HasSubstr("/share/ddprun/configs/quickstart.yaml")));
}

TEST(Quickstart, IsTheFirstThatTheHelpNames) {
  TemporaryFolder folder;
  const CommandResult help = must_run(folder, {"--help"});
  const std::size_t start = help.out.find("Start with:\n  ddprun quickstart ");
  ASSERT_NE(start, std::string::npos) << help.out;
  EXPECT_LT(start, help.out.find("Commands ("));
  for (const char* command : {"quickstart", "run", "validate", "list", "describe", "verify",
                              "doctor", "completion", "--version"}) {
    EXPECT_THAT(help.out, HasSubstr("\n  " + std::string(command) + " "));
  }
  EXPECT_EQ(refusal_of(folder, {}), help.out);
  EXPECT_THAT(run_ddprun(folder, {"run", "--help"}).out, HasSubstr("--columns"));
}

}  // namespace
}  // namespace ddprun::test
