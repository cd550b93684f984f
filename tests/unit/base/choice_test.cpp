// Enums with names: both ways, and as the variable of an option.
#include "ddprun/base/choice.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

enum class Colour { red, light_blue };
constexpr auto choice_names(Colour) { return std::array{"red", "light-blue"}; }

TEST(Choice, HasANameForEachValue) {
  EXPECT_STREQ(name_of(Colour::red), "red");
  EXPECT_STREQ(name_of(Colour::light_blue), "light-blue");
  EXPECT_EQ(choice_of<Colour>("light-blue"), Colour::light_blue);
  EXPECT_EQ(choice_of<Colour>("light_blue"), std::nullopt);
  EXPECT_EQ(choice_of<Colour>(""), std::nullopt);
  static_assert(choice_of<Colour>("red") == Colour::red);
}

TEST(Choice, IsReadAndSetWithoutItsType) {
  Colour colour = Colour::red;
  const ChoiceTarget target(&colour);
  EXPECT_EQ(target.names().size(), 2U);
  EXPECT_STREQ(target.name(), "red");
  target.set(1);
  EXPECT_EQ(colour, Colour::light_blue);
  EXPECT_STREQ(target.name(), "light-blue");
}

}  // namespace
}  // namespace ddprun
