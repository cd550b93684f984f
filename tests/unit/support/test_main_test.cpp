// What tests/support/test_main.cpp says of cases that fail, crash, hang or leave something behind.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>

#include "support/matchers.h"

namespace ddprun {
namespace {

struct End {
  int status;  // of a shell: 128 and more for a signal
  std::string output;
};

/// How the program with the cases of tests/support/test_main_cases.cpp ends, run for these.
End run(const std::string& filter, const std::string& variables = "") {
  const std::string command = "unset GTEST_TOTAL_SHARDS GTEST_SHARD_INDEX; " + variables +
                              " " DDPRUN_BUILD_DIR "/bin/test_main_cases --gtest_filter='" +
                              filter + "' 2>&1; echo \"status $?\"";
  FILE* const pipe = ::popen(command.c_str(), "r");
  std::string output;
  for (int letter; (letter = std::fgetc(pipe)) != EOF;) output.push_back(static_cast<char>(letter));
  ::pclose(pipe);
  return {std::stoi(output.substr(output.rfind("status ") + 7)), output};
}

TEST(TestMain, ACaseThatPassesIsAllRight) { EXPECT_EQ(run("Cases.Passes").status, 0); }

TEST(TestMain, AFailedCaseIsNamed) {
  const End end = run("Cases.Fails:Cases.Passes");
  EXPECT_EQ(end.status, 1);
  EXPECT_THAT(end.output, HasSubstr("[  FAILED  ] Cases.Fails"));
}

TEST(TestMain, OnlyASuiteThatIsSkippedAsAWholeCountsAsSkipped) {
  const End whole = run("Cases.IsSkipped");
  EXPECT_EQ(whole.status, 77);
  EXPECT_THAT(whole.output, HasSubstr("for a reason"));
  EXPECT_EQ(run("Cases.IsSkipped:Cases.Passes").status, 0);
  EXPECT_EQ(run("Cases.IsSkipped:Cases.Fails").status, 1);
}

TEST(TestMain, ANameOfNoCaseIsAFailure) { EXPECT_EQ(run("Cases.Nothing").status, 1); }

TEST(TestMain, WhatACaseLeavesIsItsFailure) {
  const End variable = run("Cases.LeavesAVariable:Cases.Passes");
  EXPECT_EQ(variable.status, 1);
  EXPECT_THAT(variable.output,
              AllOf(HasSubstr("[  FAILED  ] Cases.LeavesAVariable"),
                    HasSubstr("\"DDPRUN_TEST_LEFT \""), HasSubstr("[       OK ] Cases.Passes")));
  EXPECT_THAT(run("Cases.LeavesItsFolder:Cases.Passes").output,
              HasSubstr("[  FAILED  ] Cases.LeavesItsFolder"));
  EXPECT_EQ(run("Cases.LeavesAVariable").status, 0) << "its process is its own";
}

TEST(TestMain, ACaseThatCrashesIsNamed) {
  const End segfault = run("Cases.Crashes");
  EXPECT_NE(segfault.status, 0);
  const End aborted = run("Cases.Aborts");
  EXPECT_EQ(aborted.status, 128 + SIGABRT);
  EXPECT_THAT(aborted.output, HasSubstr("Cases.Aborts crashes: Aborted"));
}

TEST(TestMain, ACaseThatHangsIsNamedAndEndsWithItsChildren) {
  const auto begin = std::chrono::steady_clock::now();
  const End end = run("Cases.Hangs", "DDPRUN_TEST_LIMIT_S=1");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_EQ(end.status, 128 + SIGABRT);
  EXPECT_THAT(end.output,
              AllOf(HasSubstr("Cases.Hangs hangs: no end after 1 s"), Not(HasSubstr("crashes"))));
}

}  // namespace
}  // namespace ddprun
