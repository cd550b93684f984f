// A result folder appears whole or not at all.
#include "runner/report/result_folder.h"

#include <gmock/gmock.h>
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
using testing::AllOf;
using testing::HasSubstr;

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
    result.write("sub/a.txt", expected);
    EXPECT_EQ(result.commit(), folder.path() / "name" / expected);
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
  EXPECT_EQ(rows.at("f-a=1").row.taken_from, result.string());
  EXPECT_NE(folder.read("known/T1/summary.md").find("ddprun 'it'\\''s.yaml'"), std::string::npos);

  // Of an older schema: its rows count for nothing, and the warning names it and both versions.
  auto older = nlohmann::json::parse(folder.read("known/T1/result.json"));
  older["schema_version"] = 3;
  older["rows"] = "of another form";
  for (const char* name : {"known/T0/result.json", "known/T2/result.json"}) {
    folder.write(name, older.dump());
  }
  testing::internal::CaptureStdout();
  EXPECT_EQ(earlier_rows(folder.path() / "known").size(), 1u);
  EXPECT_THAT(
      testing::internal::GetCapturedStdout(),
      AllOf(HasSubstr("known/T2/result.json has schema version 3"),
            HasSubstr("reads version 4: its rows run again"), HasSubstr("(and those of 1 more)")));

  folder.write("known/T3/result.json", "{ half");
  EXPECT_THROW(earlier_rows(folder.path() / "known"), ConfigError);
}

}  // namespace
}  // namespace ddprun::test
