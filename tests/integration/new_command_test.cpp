// ddprun new: the files that it writes, and what it refuses. That they build is tested out of tree.
#include <cctype>
#include <filesystem>
#include <set>

#include "support/ddprun_command.h"

namespace ddprun::test::new_command_test {
namespace {

namespace fs = std::filesystem;

/// Without what run_ddprun() writes.
std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename();
    if (name != "stdout" && name != "stderr") names.insert(name);
  }
  return names;
}

/// Status 2, and nothing is written.
std::string new_refused(const Words& words) {
  const TemporaryFolder folder;
  std::string refusal = refusal_of(folder, words);
  EXPECT_THAT(names_in(folder.path()), IsEmpty());
  return refusal;
}

TEST(NewCommand, WritesAPluginOfEachKindAndSaysWhatToType) {
  const TemporaryFolder folder;
  for (const std::string kind : {"strategy", "precision", "attention"}) {
    const std::string name = "my_" + kind;
    const CommandResult run = must_run(folder, {"new", kind, name});
    EXPECT_THAT(run.out, AllOf(HasSubstr("\ncmake -S " + name + " -B " + name + "/build -D"),
                               HasSubstr("\nddprun-contract " + name + "/build/" + kind + "_" +
                                         name + ".so\n"),
                               HasSubstr("\nddprun " + name + "/" + name + ".yaml\n")));
    const fs::path written = folder.path() / name;
    EXPECT_THAT(names_in(written), ElementsAre("CMakeLists.txt", name + ".cpp", name + ".yaml"));
    const std::string title = static_cast<char>(std::toupper(kind.front())) + kind.substr(1);
    EXPECT_THAT(read_file(written / (name + ".cpp")),
                AllOf(StartsWith("// " + name + ": "),
                      HasSubstr("class My" + title + " final : public ddprun::" + title + " {"),
                      HasSubstr("(My" + title + ", \"" + name + "\", ")));
    EXPECT_THAT(read_file(written / "CMakeLists.txt"),
                HasSubstr("ddprun_add_plugin(" + kind + " " + name + " " + name + ".cpp)"));
    EXPECT_THAT(read_file(written / (name + ".yaml")),
                AllOf(HasSubstr("plugin_path: [build]"), HasSubstr(name)));
  }
  EXPECT_EQ(names_in(folder.path()).size(), 3u) << "nothing hidden stays";
}

TEST(NewCommand, TheExperimentNeedsThePluginToBeBuilt) {
  const TemporaryFolder folder;
  must_run(folder, {"new", "strategy", "ring"});
  EXPECT_THAT(run_ddprun(folder, {"validate", "ring/ring.yaml"}).err,
              HasSubstr("the plugin folder is not there"));
}

TEST(NewCommand, WritesIntoAFolderThatIsNamed) {
  const TemporaryFolder folder;
  fs::create_directories(folder.path() / "empty");
  for (const std::string to : {"empty", "deep/new one/"}) {
    const CommandResult run = must_run(folder, {"new", "attention", "ring", "-o", to});
    EXPECT_THAT(names_in(folder.path() / to),
                ElementsAre("CMakeLists.txt", "ring.cpp", "ring.yaml"));
    const bool plain = to == "empty";
    EXPECT_THAT(run.out, HasSubstr(plain ? "\ncmake -S empty -B empty/build "
                                         : "\ncmake -S 'deep/new one/' -B 'deep/new one/build' "));
  }
  EXPECT_THAT(names_in(folder.path() / "deep"), ElementsAre("new one"));
}

TEST(NewCommand, WritesOverWhatWasCutShortAndOverNothingElse) {
  const TemporaryFolder folder;
  fs::create_directories(folder.path() / ".ring.ddprun-unfinished");
  folder.write(".ring.ddprun-unfinished/half.cpp", "");
  const Words words = {"new", "strategy", "ring"};
  must_run(folder, words);
  EXPECT_THAT(names_in(folder.path()), ElementsAre("ring"));
  folder.write("ring/ring.cpp", "mine");
  EXPECT_THAT(refusal_of(folder, words), AllOf(HasSubstr("the folder of a new plugin is not empty"),
                                               HasSubstr("-o FOLDER names another")));
  EXPECT_EQ(read_file(folder.path() / "ring/ring.cpp"), "mine");
}

TEST(NewCommand, LeavesNothingWhereItCannotWrite) {
  const TemporaryFolder folder("file", "");
  EXPECT_THAT(refusal_of(folder, {"new", "strategy", "ring", "-o", "file/ring"}),
              AllOf(HasSubstr("the sources of a new plugin cannot be written"),
                    HasSubstr("Not a directory")));
  EXPECT_THAT(run_ddprun(folder, {"new", "strategy", "ring", "-o", "file"}).err,
              HasSubstr("a file of that name"));

  // Files of a kilobyte at most: the second of three is larger.
  fs::create_directories(folder.path() / "empty");
  for (const std::string to : {"ring", "empty"}) {
    EXPECT_THAT(refusal_of(folder, {"new", "strategy", "ring", "-o", to},
                           after("trap '' XFSZ; ulimit -f 1")),
                HasSubstr("File too large"));
  }
  EXPECT_THAT(names_in(folder.path()), ElementsAre("empty", "file"));
  EXPECT_THAT(names_in(folder.path() / "empty"), IsEmpty());
}

TEST(NewCommand, RefusesWhatCannotBe) {
  EXPECT_THAT(new_refused({"new", "stratgy", "ring"}),
              AllOf(HasSubstr("there is no such kind of plugin"), HasSubstr("got: stratgy"),
                    HasSubstr("expected: strategy, precision, attention"),
                    HasSubstr("did you mean `ddprun new strategy`?")));
  EXPECT_THAT(new_refused({"new", "strategy", "MyRing"}),
              AllOf(HasSubstr("a new plugin cannot have this name"),
                    HasSubstr("did you mean \"my_ring\"?")));
  EXPECT_THAT(new_refused({"new", "strategy", "flat"}),
              AllOf(HasSubstr("a plugin has this name already"), HasSubstr("strategy_flat.so"),
                    HasSubstr("as in my_flat")));
  EXPECT_THAT(new_refused({"new", "attention", "flat"}), HasSubstr("got: strategy flat"));
  EXPECT_THAT(new_refused({"new", "strategy"}), HasSubstr("name is required"));
}

}  // namespace
}  // namespace ddprun::test::new_command_test
