// Lines and widths of what a terminal shows, and how long a run still takes.
#include "runner/report/terminal.h"

#include <pty.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "ddprun/base/text.h"
#include "runner/launch/progress.h"
#include "support/matchers.h"

namespace ddprun {
namespace {

TEST(Terminal, WrapsAtSpaces) {
  EXPECT_EQ(wrapped("± bb ccc dddd", 4), "± bb\nccc\ndddd");
  EXPECT_EQ(wrapped("longer than that", 4), "longer\nthan\nthat");
  EXPECT_EQ(wrapped("  a  b\n\nc", 9), "  a  b\n\nc");
  EXPECT_EQ(wrapped("", 4), "");
  EXPECT_EQ(wrapped("it is 10 % faster", 8), "it is\n10 %\nfaster") << "a number has its unit";
  EXPECT_EQ(wrapped("budget: 10 %", 10), "budget:\n10 %");
}

TEST(Terminal, ADumbOneHasAWidthAndNoColours) {
  const winsize size = {.ws_row = 24, .ws_col = 44, .ws_xpixel = 0, .ws_ypixel = 0};
  int master = -1, slave = -1;
  ASSERT_EQ(openpty(&master, &slave, nullptr, nullptr, &size), 0);
  std::FILE* const stream = fdopen(slave, "w");
  const char* const before = std::getenv("TERM");
  const std::string name = before == nullptr ? "" : before;
  for (const bool dumb : {true, false}) {
    setenv("TERM", dumb ? "dumb" : "xterm", 1);
    const Terminal terminal = terminal_of(stream);
    EXPECT_EQ(terminal.width, 44);
    EXPECT_NE(terminal.interactive, dumb);
    EXPECT_FALSE(dumb && terminal.colour);
  }
  setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  EXPECT_EQ(terminal_of(stream).width, 0) << "mpirun's, which may end in a file";
  unsetenv("OMPI_COMM_WORLD_RANK");
  before == nullptr ? unsetenv("TERM") : setenv("TERM", name.c_str(), 1);
  std::fclose(stream);
  close(master);
}

TEST(Terminal, WidthOfText) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("±→✓"), 3);
  EXPECT_EQ(display_width("漢字"), 4);
  EXPECT_EQ(display_width("e\u0301"), 1);  // e and a combining accent
  EXPECT_EQ(cut_to_width("±±±±", 3), "±±…");
  EXPECT_EQ(cut_to_width("abc", 3), "abc");
  EXPECT_EQ(with_thousands(1234567), "1,234,567");
  EXPECT_EQ(with_thousands(-1000), "-1,000");
  EXPECT_EQ(with_thousands(999), "999");
}

/// What a bar says when step 10 and, 0.4 s later, step 11 are done.
std::string progress_of(std::int64_t steps) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const stream = open_memstream(&text, &size);
  {
    ProgressDisplay display(stream, ProgressDisplay::Mode::bar, 120);
    display.begin_run(1, 2, "flat", 2);
    display.update({10, steps, "loss 5.0"});
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    display.update({11, steps, "loss 4.0"});
  }
  std::fclose(stream);
  std::string out(text, size);
  std::free(text);
  return out;
}

TEST(ProgressDisplay, SaysHowLongTheStepsThatAreLeftTake) {
  EXPECT_THAT(progress_of(13), ContainsRegex("flat  .* 11/13  loss 4\\.0  [12] s left"));
  EXPECT_THAT(progress_of(30'011), ContainsRegex("  [3-9] h [1-5]?[0-9] min left"));
}

}  // namespace
}  // namespace ddprun
