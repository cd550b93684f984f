// A result folder is seen when it holds something, and its rows are found again.
#include "runner/report/result_folder.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ddprun/base/error.h"
#include "runner/report/earlier_rows.h"
#include "runner/report/result_files.h"
#include "support/ddprun_command.h"
#include "support/report_rows.h"

namespace ddprun::test {
namespace {

namespace fs = std::filesystem;

TEST(ResultFolder, NothingStaysWithoutCommit) {
  TemporaryFolder folder;
  {
    ResultFolder result(folder.path() / "deep/results", "name", "T1");
    result.write("a.txt", "text");
    EXPECT_FALSE(fs::exists(folder.path() / "deep/results/name/T1"));
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(ResultFolder, CommitShowsAllAndPointsLatestToIt) {
  TemporaryFolder folder;
  for (const char* expected : {"T1", "T1-2"}) {
    ResultFolder result(folder.path(), "name", "T1");
    result.write("sub/a.txt", "another text, which is longer");
    result.write("sub/a.txt", expected);
    EXPECT_EQ(result.commit(), folder.path() / "name" / expected);
    EXPECT_EQ(result.path("sub/a.txt"), folder.path() / "name" / expected / "sub/a.txt");
    EXPECT_EQ(folder.read("name/latest/sub/a.txt"), expected);
  }
  EXPECT_EQ(folder.read("name/T1/sub/a.txt"), "T1");
}

TEST(ResultFolder, LeftoversOfADeadProcessAreRemovedOthersStay) {
  TemporaryFolder folder;
  const pid_t dead = fork();
  if (dead == 0) _exit(0);
  waitpid(dead, nullptr, 0);
  folder.write("name/.unfinished-" + std::to_string(dead) + "/a.txt", "stale");
  folder.write("name/.unfinished-1/a.txt", "of a live process");
  { ResultFolder result(folder.path(), "name", "T1"); }
  EXPECT_FALSE(fs::exists(folder.path() / "name" / (".unfinished-" + std::to_string(dead))));
  EXPECT_TRUE(fs::exists(folder.path() / "name/.unfinished-1/a.txt"));
}

TEST(ResultFolder, AFileInTheWayIsAConfigError) {
  TemporaryFolder folder;
  folder.write("results", "a file");
  EXPECT_THROW(ResultFolder(folder.path() / "results", "name", "T1"), ConfigError);
}

TEST(ResultFiles, WrittenRowsAreFoundAgain) {
  TemporaryFolder folder;
  Row failed = known_row("a=2");
  failed.status = RowStatus::failed;
  const ResultContext context{"known",          "T1",     {"ddprun", "it's.yaml"},
                              {{"torch", "2"}}, "a: 1\n", {"a: 1\n", "a: 2\n"}};
  Row measured = known_row("a=1");
  measured.ranks[0].topology = "<system/>";
  ResultFolder target(folder.path(), context.name, context.time);
  const fs::path result = write_result(target, context, {measured, failed});
  EXPECT_EQ(folder.read("known/T1/nccl_topology.xml"), "<system/>");
  EXPECT_EQ(folder.read("known/T1/result.json").find("<system/>"), std::string::npos);
  const auto rows = earlier_rows(folder.path() / "known");
  ASSERT_EQ(rows.size(), 1u);  // the failed one is to run again
  EXPECT_EQ(rows.at({"f-a=1", 1}).front().row.taken_from, result.string());
  EXPECT_NE(folder.read("known/T1/summary.md").find("ddprun 'it'\\''s.yaml'"), std::string::npos);
}

TEST(ResultFiles, ARowIsFoundBeforeItsResultIsComplete) {
  TemporaryFolder folder;
  const ResultContext context{"known", "T1", {"ddprun"}, {}, "a: 1\n", {"a: 1\n", "a: 2\n"}};
  const std::vector<Row> rows = {known_row("a=1"), known_row("a=2")};
  {
    ResultFolder target(folder.path(), context.name, context.time);
    write_row(target, context, 1, rows[0]);
    EXPECT_TRUE(fs::exists(folder.path() / "known/T1/rows/01.json"));
    EXPECT_FALSE(fs::exists(folder.path() / "known/latest")) << "it is not complete";
  }
  const auto found = earlier_rows(folder.path() / "known");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found.at({"f-a=1", 1}).front().row.taken_from, (folder.path() / "known/T1").string());
  EXPECT_EQ(found.at({"f-a=1", 1}).front().folder, "") << "a new result is written";

  ResultFolder target(folder.path(), context.name, "T2");
  for (const std::size_t number : {1, 2}) write_row(target, context, number, rows[number - 1]);
  write_result(target, context, rows);
  EXPECT_FALSE(fs::exists(folder.path() / "known/T2/rows"));
  EXPECT_EQ(earlier_rows(folder.path() / "known").at({"f-a=1", 1}).front().folder,
            folder.path() / "known/T2");
}

}  // namespace
}  // namespace ddprun::test
