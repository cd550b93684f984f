// What a plugin of the user's own may be called.
#include "runner/command/plugin_name.h"

#include "support/matchers.h"

namespace ddprun::test {
namespace {

std::string hint_for(const std::string& name) {
  return error_text_of<ConfigError>([&] { check_plugin_name(name); }).hint;
}

TEST(PluginName, BecomesAClass) {
  EXPECT_EQ(class_name("ring"), "Ring");
  EXPECT_EQ(class_name("my_ring_2"), "MyRing2");
  EXPECT_EQ(class_name("two__words_"), "TwoWords");
}

TEST(PluginName, IsOfSmallLettersDigitsAndUnderscores) {
  for (const std::string name : {"a", "ring", "my_ring_2", "nullify", "new"}) {
    EXPECT_NO_THROW(check_plugin_name(name)) << name;
  }
  for (const std::string name :
       {"", "_", "Ring", "my-ring", "2nd", "_ring", "a/b", "..", "ä", "a\n"}) {
    EXPECT_THROW(check_plugin_name(name), ConfigError) << name;
  }
}

TEST(PluginName, HasAnEnd) {
  EXPECT_NO_THROW(check_plugin_name(std::string(64, 'a')));
  const ErrorText error =
      error_text_of<ConfigError>([] { check_plugin_name(std::string(65, 'a')); });
  EXPECT_THAT(error.got, HasSubstr("65 characters"));
  EXPECT_THAT(error.expected, HasSubstr("at most 64"));
}

TEST(PluginName, IsTextInYaml) {
  for (const std::string name : {"null", "true", "false", "latest"}) {
    EXPECT_THROW(check_plugin_name(name), ConfigError) << name;
  }
}

TEST(PluginName, ThatIsAlmostOneHasAHint) {
  EXPECT_EQ(hint_for("MyRing"), "did you mean \"my_ring\"?");
  EXPECT_EQ(hint_for("my-ring.2"), "did you mean \"my_ring_2\"?");
  EXPECT_EQ(hint_for("2nd Ring!"), "did you mean \"nd_ring\"?");
  EXPECT_EQ(hint_for("GPURing"), "did you mean \"gpuring\"?");
  EXPECT_THAT(hint_for("42"), HasSubstr("are called by it"));
}

}  // namespace
}  // namespace ddprun::test
