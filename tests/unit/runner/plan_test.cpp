// Which files a folder stands for.
#include "runner/launch/plan.h"

#include <sys/stat.h>

#include "support/ddprun_command.h"

namespace ddprun::test {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> files_in(const TemporaryFolder& folder) {
  const FileList list = collect_files({folder.path().string()});
  EXPECT_TRUE(list.from_folder);
  std::vector<std::string> names;
  for (const fs::path& file : list.files) {
    names.push_back(file.lexically_relative(folder.path()).string());
  }
  return names;
}

TEST(CollectFiles, AFolderIsReadWithItsSubfoldersInOrderOfPath) {
  TemporaryFolder folder;
  for (const char* name : {"z.yaml", "b/y.yml", "b/c/x.yaml", "a.yaml", "b/readme.md"}) {
    folder.write(name, "x");
  }
  EXPECT_THAT(files_in(folder), ElementsAre("a.yaml", "b/c/x.yaml", "b/y.yml", "z.yaml"));
}

TEST(CollectFiles, HiddenFoldersAndResultsAreLeftOut) {
  TemporaryFolder folder;
  for (const char* name :
       {"a.yaml", ".git/b.yaml", "results/a/T1/experiment.yaml", "results/a/T1/resolved/01.yaml",
        "results/a/T1/result.json", "results/note.yaml", "results/a/T2/experiment.yaml",
        "results/a/T2/verify.json", "results/a/T3/tuned.yaml", "results/a/T3/tune.json"}) {
    folder.write(name, "x");
  }
  EXPECT_THAT(files_in(folder), ElementsAre("a.yaml", "results/note.yaml"));
}

/// What cannot be read is a row that failed, and not a row that nobody misses.
TEST(CollectFiles, LinksLeadNowhereTwice) {
  TemporaryFolder folder("a/b.yaml", "x");
  fs::create_directory_symlink("..", folder.path() / "a/up");
  fs::create_symlink("self.yaml", folder.path() / "a/self.yaml");
  fs::create_symlink("gone.yaml", folder.path() / "a/dangling.yaml");
  fs::create_symlink("b.yaml", folder.path() / "a/same.yaml");
  fs::create_symlink("user@host.1", folder.path() / "a/.#b.yaml");  // Emacs edits it
  ASSERT_EQ(mkfifo((folder.path() / "a/fifo.yaml").c_str(), 0600), 0);
  EXPECT_THAT(files_in(folder), ElementsAre("a/b.yaml", "a/dangling.yaml", "a/fifo.yaml",
                                            "a/same.yaml", "a/self.yaml"));
}

TEST(CollectFiles, AFolderWithoutExperimentsIsRefused) {
  TemporaryFolder folder("a/b.txt", "x");
  const std::string error = error_of<ConfigError>([&] { collect_files({folder.path().string()}); });
  EXPECT_THAT(error, HasSubstr("the folder holds no YAML file"));
}

}  // namespace
}  // namespace ddprun::test
