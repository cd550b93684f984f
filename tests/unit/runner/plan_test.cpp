// Which files a folder stands for, and how often the rows of a file run.
#include "runner/launch/plan.h"

#include <sys/stat.h>

#include <tuple>

#include "ddprun/base/ranges.h"
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

/// Two rows, of which the first is the base of both.
PlannedFile file_of(std::int64_t repeats) {
  PlannedFile plan;
  plan.runs.resize(2);
  plan.runs[0].fingerprint = "a";
  plan.runs[1].fingerprint = "b";
  for (PlannedRun& run : plan.runs) run.baseline = "a";
  plan.report.repeats = repeats;
  return plan;
}

TEST(Turns, ABaseRunsTwiceInARoundWhereRunsAreTested) {
  const auto turns = [](const PlannedFile& plan) {
    return mapped(turns_of(plan), [&plan](const PlannedTurn& turn) {
      const auto& [run, repetition, round, last] = turn;
      return std::tuple(run - plan.runs.data(), repetition, round, last);
    });
  };
  PlannedFile plan = file_of(3);
  EXPECT_THAT(turns(plan), ElementsAre(std::tuple(0, 1, 1, false), std::tuple(0, 2, 1, true),
                                       std::tuple(0, 3, 2, false), std::tuple(0, 4, 2, true),
                                       std::tuple(0, 5, 3, false), std::tuple(0, 6, 3, true),
                                       std::tuple(1, 1, 1, false), std::tuple(1, 2, 2, false),
                                       std::tuple(1, 3, 3, false)));
  plan.report.aa = false;
  EXPECT_EQ(turns(plan).size(), 6U);
  EXPECT_EQ(turns(file_of(2)).size(), 4U) << "two are not tested";
  plan = file_of(3);
  plan.runs.pop_back();
  EXPECT_EQ(turns(plan).size(), 3U) << "the base of itself alone";
}

TEST(Obstacles, AreSaidOnce) {
  PlannedFile plan = file_of(1);
  for (PlannedRun& run : plan.runs) run.not_here = "no GPU";
  EXPECT_EQ(obstacles(plan), "no GPU");
  plan.runs[1].not_here = "no MPI";
  EXPECT_EQ(obstacles(plan), "no GPU\nno MPI");
}

}  // namespace
}  // namespace ddprun::test
