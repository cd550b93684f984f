// A crash within its scope is a sentence, and after it what it was.
#include "ddprun/base/crash_words.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "ddprun/base/child_process.h"

namespace ddprun {
namespace {

TEST(CrashWords, ACrashEndsTheProcessWithThem) {
  EXPECT_EXIT(
      {
        const CrashWords words("error: so it goes\n", 2);
        std::abort();
      },
      testing::ExitedWithCode(2), "^error: so it goes\n$");
}

TEST(CrashWords, AreGoneWithTheirScope) {
  const ChildReport report = run_in_child(
      [](int) {
        ::signal(SIGABRT, SIG_DFL);
        { const CrashWords words("", 2); }
        std::abort();
      },
      60);
  EXPECT_EQ(report.death, "killed by signal 6 (Aborted)");
}

}  // namespace
}  // namespace ddprun
