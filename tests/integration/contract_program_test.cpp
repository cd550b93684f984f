// `ddprun-contract LIBRARY`: the cases that it tries a plugin in.
#include <sys/wait.h>

#include <cstdlib>

#include "support/ddprun_command.h"

namespace ddprun::test {
namespace {

class ContractProgram : public testing::Test {
 protected:
  /// What `ddprun-contract` prints with this plugin of tests and these arguments.
  std::string printed(const std::string& library, const std::string& arguments,
                      int expected_status) {
    const std::string command =
        DDPRUN_BUILD_DIR "/bin/ddprun-contract " DDPRUN_BUILD_DIR "/tests/plugins/" + library +
        " " + arguments + " > " + (folder_.path() / "list").string() + " 2>&1";
    const int status = std::system(command.c_str());
    std::string printed = folder_.read("list");
    EXPECT_EQ(WEXITSTATUS(status), expected_status) << printed;
    return printed;
  }
  std::string list(const std::string& arguments, int expected_status = 0) {
    return printed("choosy/choosy.so", arguments + " --gtest_list_tests", expected_status);
  }

  const TemporaryFolder folder_;
};

TEST_F(ContractProgram, TriesAStrategyWithItsDefaultsItsMinimumAndItsOtherValues) {
  const std::string cases = list("");
  EXPECT_THAT(cases, HasSubstr("/choosy__fp32__"));
  EXPECT_THAT(cases, HasSubstr("/choosy_at_its_minimum__fp32__"));
  EXPECT_THAT(cases, HasSubstr("/choosy_with_other_values__bf16_mixed__"));
  EXPECT_THAT(cases, Not(HasSubstr("choosy_with_other_values__fp32__")));
  EXPECT_THAT(cases, Not(HasSubstr("/flat")));
}

TEST_F(ContractProgram, AFilterChoosesAmongThePluginsCases) {
  const std::string cases = list("--gtest_filter='*bf16_mixed*-*minimum*'");
  EXPECT_THAT(cases, HasSubstr("/choosy__bf16_mixed__"));
  EXPECT_THAT(cases, Not(HasSubstr("choosy__fp32__")));
  EXPECT_THAT(cases, Not(HasSubstr("at_its_minimum")));
  EXPECT_THAT(cases, Not(HasSubstr("/flat")));
}

TEST_F(ContractProgram, OptionsOfThePluginStandBehindIt) {
  const std::string cases = list("turned=true");
  EXPECT_THAT(cases, HasSubstr("/choosy__bf16_mixed__"));
  EXPECT_THAT(cases, Not(HasSubstr("/choosy__fp32__"))) << "it refuses that when it is turned";
  EXPECT_THAT(list("tunred=true", 2), HasSubstr("did you mean 'turned'?"));
  EXPECT_THAT(list("turned", 2), HasSubstr("an option of a plugin is KEY=VALUE"));
}

// Without the check of each update, nothing holds a strategy to the meetings that it declares.
TEST_F(ContractProgram, AMeetingIsHeldAgainstWhatTheStrategySaysOfIt) {
  const std::string one = "--gtest_filter='*Contract.Gradients*__fp32__*2_ranks__shm'";
  EXPECT_THAT(printed("planted/periodic.so", "fault=off_by_little " + one, 1),
              HasSubstr("parameters_updated: rank 0: "));
  printed("planted/periodic.so", one, 0);
}

// One process that computes the same would agree with all ranks.
TEST_F(ContractProgram, AnAttentionIsHeldAgainstItsFormula) {
  const std::string one = "--gtest_filter='*Contract.Gradients*__fp32__*1_rank__shm'";
  EXPECT_THAT(printed("planted/attention.so", "fault=not_causal " + one, 1),
              HasSubstr("attention_computed: rank 0: output is off by"));
}

}  // namespace
}  // namespace ddprun::test
