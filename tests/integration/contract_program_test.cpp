// `ddprun-contract LIBRARY`: the cases that it tries a plugin in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "support/ddprun_command.h"

namespace ddprun::test {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ContractProgram, TriesAStrategyWithItsDefaultsItsMinimumAndItsOtherValues) {
  const TemporaryFolder folder;
  const std::string command = DDPRUN_BUILD_DIR
                              "/bin/ddprun-contract " DDPRUN_BUILD_DIR
                              "/tests/plugins/choosy/choosy.so --gtest_list_tests > " +
                              (folder.path() / "list").string() + " 2>&1";
  const int status = std::system(command.c_str());
  const std::string list = folder.read("list");
  EXPECT_EQ(status, 0) << list;
  EXPECT_THAT(list, HasSubstr("/choosy__fp32__"));
  EXPECT_THAT(list, HasSubstr("/choosy_at_its_minimum__fp32__"));
  EXPECT_THAT(list, HasSubstr("/choosy_with_other_values__bf16_mixed__"));
  EXPECT_THAT(list, Not(HasSubstr("choosy_with_other_values__fp32__")));
  EXPECT_THAT(list, Not(HasSubstr("/flat")));
}

}  // namespace
}  // namespace ddprun::test
