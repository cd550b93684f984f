// Each check of the handshake refuses its bad library with its own sentence, and nothing crashes.
#include <filesystem>
#include <fstream>
#include <iterator>

#include "ddprun/config/registry.h"
#include "ddprun/plugin/export.h"
#include "support/matchers.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const std::string& name) {
  return fs::path(DDPRUN_BUILD_DIR) / "tests" / "bad_plugins" / name;
}

fs::path library_of(const std::string& name) { return folder_of(name) / (name + ".so"); }

/// What a library is refused with; fails the test if it is not.
ErrorText refusal(const fs::path& library) {
  PluginRegistry registry({});
  try {
    registry.add_library(library);
  } catch (const PluginError& error) {
    EXPECT_THAT(registry.list(), IsEmpty());
    return error.text();
  }
  ADD_FAILURE() << library << " was accepted";
  return {};
}

struct Case {
  std::string name;
  std::string what;
  std::string got;
  std::string expected;
  std::string hint;
};

void PrintTo(const Case& bad, std::ostream* out) { *out << bad.name; }

class Handshake : public testing::TestWithParam<Case> {};

TEST_P(Handshake, RefusesWithItsOwnSentenceThatIsExplained) {
  const auto text = refusal(library_of(GetParam().name));
  EXPECT_EQ(text.what, GetParam().what);
  EXPECT_EQ(text.where, library_of(GetParam().name).string());
  EXPECT_THAT(text.got, HasSubstr(GetParam().got));
  EXPECT_THAT(text.expected, HasSubstr(GetParam().expected));
  EXPECT_THAT(text.hint, HasSubstr(GetParam().hint));
  // A scan keeps the refusal, and goes on.
  const PluginRegistry registry({folder_of(GetParam().name)});
  EXPECT_THAT(registry.list(), IsEmpty());
  EXPECT_THAT(registry.refused(), ElementsAre(HasSubstr(GetParam().what)));
  std::ifstream in(DDPRUN_SOURCE_DIR "/docs/errors.md");
  const std::string page(std::istreambuf_iterator<char>(in), {});
  const std::string sentence = GetParam().what;
  EXPECT_THAT(page, HasSubstr(sentence.substr(0, sentence.find(" lacks its"))));
}

const std::string kLibrary = "a shared library";
const std::string kBytes = std::to_string(sizeof(PluginDescriptor)) + " bytes";
const std::string kThisApi = "API " + std::to_string(kPluginApiVersion);
const std::string kNextApi = "API " + std::to_string(kPluginApiVersion + 1);
const std::string kAnotherSize = "the plugin's descriptor has another size";
const std::string kName = "the plugin's name is malformed";
const std::string kCrashed = "the plugin library crashed when it was tried";
const std::string kNull = "a null pointer";

INSTANTIATE_TEST_SUITE_P(
    All, Handshake,
    testing::Values(
        Case{"not_a_library", "the plugin library cannot be loaded", "file too short", kLibrary,
             ""},
        Case{"empty_file", "the plugin library cannot be loaded", "file too short", kLibrary, ""},
        Case{"a_folder", "the plugin library is not a file", "a folder", kLibrary, ""},
        Case{"undefined_symbol", "the plugin library needs a symbol that this ddprun does not have",
             "no_library_defines_this", "", "rebuild the plugin"},
        Case{"no_symbol", "the library is not a ddprun plugin", "no symbol ddprun_plugin_v1",
             "ddprun_plugin_v1", "DDPRUN_STRATEGY"},
        Case{"only_size", kAnotherSize, "4 bytes", kBytes, "rebuild the plugin"},
        Case{"larger_size", kAnotherSize, std::to_string(sizeof(PluginDescriptor) + 8), kBytes,
             "rebuild the plugin"},
        Case{"older_size", "the plugin was built for an older plugin API", "API 0", kThisApi,
             "rebuild the plugin"},
        Case{"older_api", "the plugin was built for an older plugin API", "API 0", kThisApi,
             "rebuild the plugin"},
        Case{"newer_api", "the plugin was built for a newer plugin API", kNextApi, kThisApi,
             "update ddprun"},
        Case{"other_build_id", "the plugin was built differently from this ddprun",
             "torch 1.13.0, gcc 9", DDPRUN_BUILD_ID, "same LibTorch, compiler and build type"},
        Case{"null_build_id", "the plugin was built differently from this ddprun", "",
             DDPRUN_BUILD_ID, "same LibTorch"},
        Case{"unknown_kind", "the plugin is of an unknown kind", "kind 7",
             "1 (strategy), 2 (precision) or 3 (attention)", "DDPRUN_STRATEGY"},
        Case{"bad_name", kName, "'Not-A-Name'", "a-z, 0-9 and _", ""},
        Case{"empty_name", kName, "''", "a-z, 0-9 and _", ""},
        Case{"null_name", kName, "''", "a-z, 0-9 and _", ""},
        Case{"null_summary", "the plugin's descriptor lacks its summary", kNull, "", "rebuild"},
        Case{"null_version", "the plugin's descriptor lacks its version", kNull, "", "rebuild"},
        Case{"null_create", "the plugin's descriptor lacks its function `create`", kNull, "",
             "rebuild"},
        Case{"ends_when_loaded", kCrashed, "ended with exit status 3", "can be loaded",
             "it is damaged"},
        Case{"aborts_when_loaded", kCrashed, "killed by signal 6 (Aborted)", "can be loaded",
             "it is damaged"},
        Case{"create_aborts", kCrashed, "killed by signal 6 (Aborted)", "makes its plugin",
             "its code is at fault"},
        Case{"aborts_at_exit", kCrashed, "killed by signal 6 (Aborted), in a static destructor",
             "and ends", "its code is at fault"},
        Case{"throws_at_exit", kCrashed, "killed by signal 6 (Aborted), in a static destructor",
             "and ends", "its code is at fault"},
        Case{"hangs_at_exit", kCrashed, "killed by signal 14 (Alarm clock), in a static destructor",
             "and ends", "its code is at fault"},
        Case{"null_destroy", "the plugin's descriptor lacks its function `destroy`", kNull, "",
             "rebuild"}),
    [](const auto& info) { return info.param.name; });

TEST(BadPlugins, AMissingFileIsRefused) {
  const auto text = refusal(folder_of("nowhere") / "nothing.so");
  EXPECT_EQ(text.what, "the plugin library is not a file");
  EXPECT_EQ(text.got, "No such file or directory");
  EXPECT_EQ(text.expected, "a shared library (.so)");
  EXPECT_EQ(text.hint, "build it, or correct the path");
}

TEST(BadPlugins, ATruncatedLibraryIsRefusedAtAnyLength) {
  const fs::path whole = library_of("no_symbol");
  const fs::path cut = fs::path(testing::TempDir()) / "truncated.so";
  const auto size = fs::file_size(whole);
  for (const auto length :
       {std::uintmax_t{10}, std::uintmax_t{40}, std::uintmax_t{1000}, size / 2, size - 1}) {
    fs::copy_file(whole, cut, fs::copy_options::overwrite_existing);
    fs::resize_file(cut, length);
    const auto text = refusal(cut);
    EXPECT_EQ(text.what, "the plugin library is incomplete") << length;
    EXPECT_EQ(text.got, std::to_string(length) + " bytes");
    const auto needed = length < 64 ? 64 : size;  // 64: an ELF header
    EXPECT_EQ(text.expected, "at least " + std::to_string(needed) + " bytes") << length;
  }
}

TEST(BadPlugins, OneThatCrashesDoesNotTakeTheOthersWithIt) {
  const fs::path folder = fs::path(testing::TempDir()) / "crashing_among_others";
  fs::remove_all(folder);
  fs::create_directory(folder);
  for (const std::string name : {"aborts_when_loaded", "create_aborts", "create_throws"}) {
    fs::create_symlink(library_of(name), folder / (name + ".so"));
  }
  fs::create_symlink(library_of("not_a_strategy"), folder / "z.so");
  const PluginRegistry registry({folder});
  std::vector<std::string> names;
  for (const PluginInfo& info : registry.list()) names.push_back(info.name);
  EXPECT_THAT(names, ElementsAre("bad", "not_a_strategy"));
  EXPECT_THAT(registry.refused(), ElementsAre(HasSubstr(kCrashed), HasSubstr(kCrashed)));
}

/// What the child leaves behind holds the pipe open, or goes on as the child does.
TEST(BadPlugins, OneThatForksWhenItIsLoadedIsTriedOnce) {
  for (const std::string name : {"forks_when_loaded", "doubles_when_loaded"}) {
    PluginRegistry registry({});
    registry.add_library(library_of(name));
    EXPECT_EQ(registry.list().at(0).name, "misbehaves") << name;
  }
}

TEST(BadPlugins, TwoOfOneNameInAFolderAreBothRefused) {
  const PluginRegistry registry({folder_of("duplicate_name")});
  EXPECT_THAT(registry.list(), IsEmpty());
  EXPECT_THAT(
      registry.refused(),
      ElementsAre(AllOf(HasSubstr("several libraries of one folder supply the strategy 'twin'"),
                        HasSubstr("duplicate_name.so, duplicate_name_too.so"))));
}

std::string creation_error(const std::string& library) {
  PluginRegistry registry({});
  registry.add_library(library_of(library));
  try {
    registry.create(PluginKind::strategy, "bad");
  } catch (const PluginError& error) {
    EXPECT_EQ(error.text().what, "the strategy 'bad' cannot be created");
    EXPECT_EQ(error.text().where, library_of(library).string());
    return error.text().got;
  }
  ADD_FAILURE() << library << " created something";
  return {};
}

TEST(BadPlugins, AFailingCreateIsAnError) {
  EXPECT_EQ(creation_error("create_throws"), "no such luck");
  EXPECT_EQ(creation_error("create_throws_int"), "an exception that is no std::exception");
  EXPECT_EQ(creation_error("create_gives_null"), "a null pointer");
}

TEST(BadPlugins, AClassThatIsNotOfItsKindIsAnError) {
  PluginRegistry registry({});
  registry.add_library(library_of("not_a_strategy"));
  PluginChoice choice;
  choice.name = "not_a_strategy";
  const ErrorText error =
      test::error_text_of<PluginError>([&] { make_strategy(registry, choice); });
  EXPECT_EQ(error.what, "the strategy 'not_a_strategy' is of a class that is no strategy");
}

}  // namespace
}  // namespace ddprun
