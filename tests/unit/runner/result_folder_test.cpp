// A result folder is seen when it holds something, and its rows are found again.
#include "runner/report/result_folder.h"

#include "runner/report/earlier_rows.h"
#include "runner/report/result_files.h"
#include "support/ddprun_command.h"
#include "support/report_rows.h"

namespace ddprun::test {
namespace {

namespace fs = std::filesystem;

fs::path only_entry(const fs::path& folder) { return fs::directory_iterator(folder)->path(); }

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
    EXPECT_FALSE(result.shows("sub"));
    EXPECT_EQ(result.commit(), folder.path() / "name" / expected);
    EXPECT_EQ(result.path("sub/a.txt"), folder.path() / "name" / expected / "sub/a.txt");
    EXPECT_EQ(folder.read("name/latest/sub/a.txt"), expected);
    EXPECT_TRUE(result.shows("sub"));
    result.remove("sub/a.txt");
    EXPECT_FALSE(result.shows("sub"));
    result.write("sub/a.txt", expected);
  }
  EXPECT_EQ(folder.read("name/T1/sub/a.txt"), "T1");
}

TEST(ResultFolder, WhatIsNoLinkStaysAndNothingIsLeftOfOurs) {
  TemporaryFolder folder("name/latest/a.txt", "of a user");
  ResultFolder result(folder.path(), "name", "T1");
  result.write("a.txt", "text");
  EXPECT_THROW(result.commit(), Error);
  EXPECT_EQ(only_entry(folder.path() / "name/T1"), folder.path() / "name/T1/a.txt");
}

/// Ends a process that writes a result, before it is done.
void leave_unfinished(const fs::path& output) {
  const pid_t pid = fork();
  if (pid == 0) {
    ResultFolder result(output, "name", "T1");
    result.write("a.txt", "text");
    _exit(0);
  }
  waitpid(pid, nullptr, 0);
}

TEST(ResultFolder, LeftoversOfADeadProcessAreRemovedThoseOfOtherHostsStay) {
  TemporaryFolder folder;
  leave_unfinished(folder.path());
  const fs::path stale = only_entry(folder.path() / "name");
  ASSERT_TRUE(fs::exists(stale / "a.txt"));
  folder.write("name/.unfinished-anotherhost-999999999/a.txt",
               "whether it lives is not known here");
  { ResultFolder result(folder.path(), "name", "T1"); }
  EXPECT_FALSE(fs::exists(stale));
  EXPECT_TRUE(fs::exists(folder.path() / "name/.unfinished-anotherhost-999999999/a.txt"));
}

TEST(ResultFolder, RunsThatBeginAndEndAtOnceAllHaveTheirs) {
  TemporaryFolder folder;
  std::vector<pid_t> runs;
  for (int run = 0; run < 20; ++run) {
    runs.push_back(fork());
    if (runs.back() != 0) continue;
    try {
      for (int i = 0; i < 100; ++i) ResultFolder(folder.path() / "deep/results", "name", "T1");
      ResultFolder result(folder.path() / "deep/results", "name", "T1");
      result.write("a.txt", "text");
      result.commit();
      _exit(0);
    } catch (const Error&) {
      _exit(1);
    }
  }
  for (const pid_t run : runs) {
    int status = 0;
    waitpid(run, &status, 0);
    EXPECT_EQ(status, 0);
  }
  std::size_t results = 0;
  for (const auto& entry : fs::directory_iterator(folder.path() / "deep/results/name")) {
    if (!entry.is_symlink()) results += fs::exists(entry.path() / "a.txt");
  }
  EXPECT_EQ(results, runs.size());
}

TEST(ResultFolder, AFileInTheWayIsAConfigError) {
  TemporaryFolder folder("results", "a file");
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

TEST(ResultFiles, AResultThatLinksToItselfCostsNoOther) {
  TemporaryFolder folder;
  const ResultContext context{"known", "T1", {"ddprun"}, {}, "a: 1\n", {"a: 1\n"}};
  ResultFolder target(folder.path(), context.name, context.time);
  write_result(target, context, {known_row("a=1")});
  for (const char* name : {"T0", "T2"}) {
    fs::create_directory(folder.path() / "known" / name);
    fs::create_symlink("result.json", folder.path() / "known" / name / "result.json");
  }
  EXPECT_EQ(earlier_rows(folder.path() / "known").size(), 1u);
}

TEST(ResultFiles, ARowThatMetTheLimitOfItsFileIsFoundAgain) {
  TemporaryFolder folder;
  Row ended = known_row("a=1");
  ended.status = RowStatus::out_of_memory;
  ended.reason = "rank 0 failed: out of memory";
  ended.ranks.clear();
  ended.config = {{"world", {{"memory_limit_gb", 0.5}}}};
  Row of_the_machine = ended;
  of_the_machine.fingerprint = "another";
  of_the_machine.config = {{"world", {{"memory_limit_gb", 0}}}};
  const ResultContext context{"known", "T1", {"ddprun"}, {}, "a: 1\n", {"a: 1\n", "a: 2\n"}};
  ResultFolder target(folder.path(), context.name, context.time);
  write_result(target, context, {ended, of_the_machine});
  const auto rows = earlier_rows(folder.path() / "known");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows.begin()->second.front().row.status, RowStatus::out_of_memory);
  EXPECT_EQ(rows.begin()->second.front().row.reason, ended.reason);
}

}  // namespace
}  // namespace ddprun::test
