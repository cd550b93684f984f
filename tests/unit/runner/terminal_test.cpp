// Lines and widths of what a terminal shows.
#include "runner/report/terminal.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "ddprun/base/text.h"

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

}  // namespace
}  // namespace ddprun
