// Texts for people: what is escaped and left out, and that an error is never cut or raw.
#include "ddprun/base/text.h"

#include "support/matchers.h"

namespace ddprun {
namespace {

using testing::Lt;

TEST(Text, ControlCharactersAreEscaped) {
  EXPECT_EQ(printable(std::string_view("a\0b\x1b[31m\r\x7f", 10)), "a\\x00b\\x1b[31m\\x0d\\x7f");
  EXPECT_EQ(printable("two\nlines\t."), "two\nlines\t.");
  EXPECT_EQ(printable_line("two\nlines\t."), "two\\nlines\\t.");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "\\u009b31m");  // the other CSI
}

TEST(Text, TextIsLeftAloneAndOtherBytesAreEscaped) {
  EXPECT_EQ(printable("±é€😀 \\x1b"), "±é€😀 \\x1b");
  EXPECT_EQ(printable("caf\xE9!"), "caf\\xe9!");
  EXPECT_EQ(printable("\xE2\x82"), "\\xe2\\x82");
}

TEST(Text, LongTextKeepsItsEnds) {
  const std::string text = "begin " + std::string(5'000'000, 'x') + " end";
  EXPECT_THAT(shortened(text, 200), AllOf(SizeIs(Lt(201U)), StartsWith("begin xxx"),
                                          EndsWith("xxx end"), HasSubstr("bytes more]")));
  EXPECT_EQ(shortened("short", 200), "short");
  std::string euros;
  for (int i = 0; i < 1000; ++i) euros += "€";
  for (std::size_t limit = 100; limit < 110; ++limit) {
    const std::string cut = shortened(euros, limit);
    EXPECT_EQ(printable(cut), cut) << "a character was cut";
    EXPECT_THAT(cut, SizeIs(testing::Le(limit)));
  }
}

TEST(ErrorText, IsWholeAndHarmlessWhateverTheValue) {
  const ConfigError error({.what = std::string("unknown key 'a\0b'", 17),
                           .where = "--set x=\n  hint: run this",
                           .got = "\x1b[2J" + std::string(5'000'000, 'y'),
                           .expected = "a key",
                           .hint = "remove it"});
  const std::string text = error.what();
  EXPECT_THAT(text, AllOf(HasSubstr("unknown key 'a\\x00b'"), HasSubstr("x=\\n  hint: run this"),
                          HasSubstr("\\x1b[2Jyyy"), EndsWith("hint: remove it")));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("\x1b")), SizeIs(Lt(3'000U))));
  EXPECT_EQ(text, Error(error.text()).what());  // what is cleaned stays as it is
}

}  // namespace
}  // namespace ddprun
