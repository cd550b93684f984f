// A child process: what it says, every way to end, and that it says nothing elsewhere.
#include "ddprun/base/child_process.h"

#include <unistd.h>

#include <csignal>

#include "ddprun/base/descriptor.h"
#include "support/matchers.h"

namespace ddprun {
namespace {

TEST(ChildProcess, SaysWhatItHasToSay) {
  const std::string text(300'000, 'x');  // more than a pipe holds
  const ChildReport report = run_in_child([&](int fd) { write_all(fd, text); }, 60);
  EXPECT_EQ(report.text, text);
  EXPECT_EQ(report.death, "");
}

TEST(ChildProcess, EveryOtherEndIsSaid) {
  EXPECT_EQ(run_in_child([](int) { ::kill(::getpid(), SIGKILL); }, 60).death,
            "killed by signal 9 (Killed)");
  EXPECT_EQ(run_in_child([](int) { ::_exit(0); }, 60).death, "ended with exit status 0");
  const ChildReport hung = run_in_child(
      [](int fd) {
        write_all(fd, "so far");
        while (true) ::pause();
      },
      0.2);
  EXPECT_EQ(hung.text, "so far");
  EXPECT_EQ(hung.death, "no end within 0.2 s");
}

TEST(ChildProcess, HasTheLimitForEachThingThatItSays) {
  const ChildReport report = run_in_child(
      [](int fd) {
        for (int i = 0; i < 4; ++i) {
          ::usleep(300'000);
          write_all(fd, ".");
        }
      },
      1);
  EXPECT_EQ(report.text, "....");
  EXPECT_EQ(report.death, "");
}

TEST(ChildProcess, EndsInAProgramThatIgnoresItsChildren) {
  std::signal(SIGCHLD, SIG_IGN);
  const ChildReport report = run_in_child([](int fd) { write_all(fd, "all"); }, 2);
  EXPECT_EQ(std::signal(SIGCHLD, SIG_DFL), SIG_IGN) << "it is the program's";
  EXPECT_EQ(report.text, "all");
  EXPECT_EQ(report.death, "");
}

TEST(ChildProcess, LeavesNoDescriptorOpen) {
  const int before = free_descriptors(4096);
  run_in_child([](int) {}, 60);
  EXPECT_EQ(free_descriptors(4096), before);
}

}  // namespace
}  // namespace ddprun
