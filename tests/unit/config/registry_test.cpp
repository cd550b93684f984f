// The registry: what it lists, whose library wins, how plugins are made, what an unknown name is
// told.
#include "ddprun/config/registry.h"

#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "ddprun/config/options_io.h"
#include "support/matchers.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const std::string& name) {
  return fs::canonical(fs::path(DDPRUN_BUILD_DIR) / "tests" / "plugins" / name);
}

/// One line a plugin: kind, name, summary, version, file.
std::vector<std::string> lines(const PluginRegistry& registry) {
  std::vector<std::string> out;
  for (const auto& info : registry.list()) {
    out.push_back(std::string(to_string(info.kind)) + " " + info.name + " " + info.summary + " " +
                  info.version + " " + info.file.filename().string());
  }
  return out;
}

TEST(Registry, ListsByKindAndName) {
  const PluginRegistry registry({folder_of("first")});
  EXPECT_THAT(lines(registry),
              ElementsAre("strategy apple first 1.2 a.so", "strategy pear first 1.2 b.so",
                          "precision apple first 1.2 c.so"));
  EXPECT_EQ(registry.list().front().file, folder_of("first") / "a.so");
  EXPECT_THAT(registry.refused(), IsEmpty());
}

TEST(Registry, TheFirstFolderWins) {
  const PluginRegistry registry({folder_of("second"), folder_of("first")});
  EXPECT_THAT(lines(registry),
              ElementsAre("strategy apple second 1.2 a.so", "strategy pear first 1.2 b.so",
                          "strategy quince second 1.2 b.so", "precision apple first 1.2 c.so"));
  EXPECT_THAT(registry.folders(), ElementsAre(folder_of("second"), folder_of("first")));
  const auto hiding = [&](const std::string& name) {
    return registry.hiding({.kind = PluginKind::strategy, .name = name});
  };
  EXPECT_EQ(hiding("apple"), "strategy apple is that of " +
                                 (folder_of("second") / "a.so").string() +
                                 ", which hides that of " + (folder_of("first") / "a.so").string());
  EXPECT_EQ(hiding("pear"), "");
}

TEST(Registry, AFolderNamedTwiceCountsOnce) {
  const PluginRegistry registry({folder_of("first"), folder_of("first") / ".." / "first"});
  EXPECT_THAT(registry.folders(), ElementsAre(folder_of("first")));
  EXPECT_EQ(registry.list().size(), 3u);
}

TEST(Registry, ALinkToALibraryOfTheFolderIsNoDuplicate) {
  const fs::path folder = fs::path(testing::TempDir()) / "registry_links";
  fs::remove_all(folder);
  fs::create_directory(folder);
  fs::create_symlink(folder_of("first") / "a.so", folder / "one.so");
  fs::create_symlink(folder_of("first") / "a.so", folder / "two.so");
  const PluginRegistry registry({folder});
  EXPECT_THAT(lines(registry), ElementsAre("strategy apple first 1.2 a.so"));
  EXPECT_THAT(registry.refused(), IsEmpty());
}

TEST(Registry, AnEntryThatCannotBeReadIsRefusedAlone) {
  const fs::path folder = fs::path(testing::TempDir()) / "registry_strange";
  fs::remove_all(folder);
  fs::create_directory(folder);
  fs::create_symlink(folder_of("first") / "a.so", folder / "a.so");
  fs::create_symlink(folder / "self.so", folder / "self.so");
  ASSERT_EQ(::mkfifo((folder / "fifo.so").c_str(), 0600), 0);
  const PluginRegistry registry({folder, folder / "self.so"});
  EXPECT_THAT(lines(registry), ElementsAre("strategy apple first 1.2 a.so"));
  EXPECT_THAT(registry.refused(),
              UnorderedElementsAre(
                  AllOf(HasSubstr("the plugin library is not a file"), HasSubstr("fifo.so")),
                  AllOf(HasSubstr("the plugin library is not a file"), HasSubstr("self.so"),
                        HasSubstr("symbolic links"))));
}

TEST(Registry, TwinsOfAFolderAreRefusedAndNoLaterFolderStandsIn) {
  const PluginRegistry registry({folder_of("twins"), folder_of("second")});
  EXPECT_THAT(lines(registry), ElementsAre("strategy quince second 1.2 b.so"));
  const auto text = test::error_text_of([&] { registry.create(PluginKind::strategy, "apple"); });
  EXPECT_THAT(text.hint, HasSubstr("several libraries of one folder supply the strategy 'apple'"));
}

TEST(Registry, AnAddedLibraryWins) {
  PluginRegistry registry({folder_of("first")});
  registry.add_library(folder_of("second") / "a.so");
  EXPECT_THAT(lines(registry),
              ElementsAre("strategy apple second 1.2 a.so", "strategy pear first 1.2 b.so",
                          "precision apple first 1.2 c.so"));
}

TEST(Registry, AnUnknownNameIsToldWhatThereIs) {
  const fs::path bad = fs::path(DDPRUN_BUILD_DIR) / "tests" / "plugins" / "nowhere";
  const PluginRegistry registry({folder_of("first"), folder_of("twins"), bad});
  const auto text = test::error_text_of(
      [&] { registry.create(PluginKind::strategy, "appel", {}, "a.yaml:3:11"); });
  EXPECT_EQ(text.what, "unknown strategy 'appel'");
  EXPECT_EQ(text.where, "a.yaml:3:11");
  EXPECT_EQ(text.expected, "apple, pear");
  EXPECT_THAT(text.hint, AllOf(HasSubstr("did you mean 'apple'?"),
                               HasSubstr("searched: " + folder_of("first").string() + "\n"),
                               HasSubstr("searched: " + bad.string() + " (no such folder)")));
}

TEST(Registry, AnUnknownNameNearToNoneGetsNoGuess) {
  const PluginRegistry registry({folder_of("first")});
  const auto text = test::error_text_of([&] { registry.create(PluginKind::precision, "zebra"); });
  EXPECT_EQ(text.expected, "apple");
  EXPECT_THAT(text.hint, AllOf(Not(HasSubstr("did you mean")), HasSubstr("ddprun list"),
                               HasSubstr("--plugin-path")));
  EXPECT_EQ(test::error_text_of([&] { registry.create(PluginKind::attention, "zebra"); }).expected,
            "no attention plugin was found");
}

PluginChoice choice_of(const std::string& yaml) {
  PluginChoice choice;
  choice.options = parse_yaml(yaml, "test.yaml");
  choice.name = choice.options.find("name")->scalar;
  return choice;
}

TEST(MakePlugin, ReadsItsOptions) {
  const PluginRegistry registry({folder_of("first")});
  const auto strategy = make_strategy(registry, choice_of("{name: apple, count: 7, path: x.so}"));
  const auto options = write_options([&](Options& o) { strategy->declare_options(o); });
  EXPECT_EQ(options.find("count")->scalar, "7");
  EXPECT_NE(make_precision(registry, choice_of("{name: apple}")), nullptr);
}

TEST(MakePlugin, RefusesWhatItDoesNotKnow) {
  const PluginRegistry registry({folder_of("first")});
  const auto key =
      test::error_text_of([&] { make_strategy(registry, choice_of("{name: apple, cuont: 7}")); });
  EXPECT_THAT(key.what, AllOf(HasSubstr("'cuont'"), HasSubstr("strategy")));
  EXPECT_THAT(key.hint, HasSubstr("count"));
  const auto name =
      test::error_text_of([&] { make_strategy(registry, choice_of("{name: aple}")); });
  EXPECT_EQ(name.what, "unknown strategy 'aple'");
  EXPECT_THAT(name.where, HasSubstr("test.yaml:1:"));
}

TEST(MakePlugin, APathChoosesTheLibrary) {
  PluginRegistry registry({folder_of("first")});
  const fs::path second = folder_of("second") / "a.so";
  auto choice = choice_of("{name: apple}");
  choice.path = second.string();
  EXPECT_EQ(test::error_text_of([&] { make_strategy(registry, choice); }).what,
            "the plugin library has not been loaded");
  registry.add_library(folder_of("second") / "b.so");
  registry.add_library(second);
  registry.add_library(folder_of("first") / "a.so");
  EXPECT_NE(make_strategy(registry, choice), nullptr);
  choice.path = (folder_of("second") / "b.so").string();
  const auto text = test::error_text_of([&] { make_strategy(registry, choice); });
  EXPECT_EQ(text.what, "the library does not supply the strategy 'apple'");
  EXPECT_EQ(text.expected, "its strategy 'quince'");
}

class SearchPath : public testing::Test {
 protected:
  void SetUp() override { unsetenv("DDPRUN_PLUGIN_PATH"); }
  void TearDown() override { unsetenv("DDPRUN_PLUGIN_PATH"); }
  const fs::path bin_ = fs::canonical("/proc/self/exe").parent_path();
  const fs::path beside_ = bin_.parent_path() / "lib" / "ddprun" / "plugins";
};

TEST_F(SearchPath, IsBesideTheExecutable) {
  EXPECT_THAT(plugin_search_path({}), ElementsAre(beside_, bin_ / "plugins"));
}

TEST_F(SearchPath, PutsTheGivenThenTheVariableFirst) {
  std::string variable = ":";
  variable.append(folder_of("second")).append("::").append(folder_of("twins"));
  setenv("DDPRUN_PLUGIN_PATH", variable.c_str(), 1);
  EXPECT_THAT(plugin_search_path({folder_of("first")}),
              ElementsAre(folder_of("first"), folder_of("second"), folder_of("twins"), beside_,
                          bin_ / "plugins"));
}

TEST_F(SearchPath, RefusesAFolderThatIsNotThere) {
  EXPECT_EQ(test::error_text_of([] { plugin_search_path({"/no/such/folder"}); }).got,
            "/no/such/folder");
  setenv("DDPRUN_PLUGIN_PATH", "/no/such/place", 1);
  const auto text = test::error_text_of([] { plugin_search_path({}); });
  EXPECT_EQ(text.what, "the plugin folder is not there");
  EXPECT_EQ(text.where, "DDPRUN_PLUGIN_PATH");
  EXPECT_EQ(text.got, "/no/such/place");
}

}  // namespace
}  // namespace ddprun
