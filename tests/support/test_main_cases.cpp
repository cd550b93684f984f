// Cases for the test of test_main.cpp: one that passes, and one for each way not to.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

namespace {

TEST(Cases, Passes) {}

TEST(Cases, Fails) { FAIL() << "as it should"; }

TEST(Cases, IsSkipped) { GTEST_SKIP() << "for a reason"; }

TEST(Cases, LeavesAVariable) { ::setenv("DDPRUN_TEST_LEFT", "1", 1); }

TEST(Cases, LeavesItsFolder) { std::filesystem::current_path("/"); }

TEST(Cases, Crashes) { std::raise(SIGSEGV); }

/// With a child, which would hold the output open.
TEST(Cases, Hangs) {
  if (::fork() == 0) ::signal(SIGTERM, SIG_IGN);
  for (;;) ::pause();
}

TEST(Cases, Aborts) { std::abort(); }

}  // namespace
