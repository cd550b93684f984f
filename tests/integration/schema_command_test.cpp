// `ddprun schema` as a user calls it, and the file that comes with ddprun.
#include "support/ddprun_command.h"

namespace ddprun::test {
namespace {

TEST(SchemaCommand, TheShippedFileIsWhatItPrints) {
  TemporaryFolder folder;
  const CommandResult schema = must_run(folder, {"schema"});
  EXPECT_TRUE(schema.out == read_file(DDPRUN_SOURCE_DIR "/configs/ddprun.schema.json"))
      << "rewrite it: build/release/bin/ddprun schema --out configs/ddprun.schema.json";
}

TEST(SchemaCommand, WritesAFileAndSaysWhyItCannot) {
  TemporaryFolder folder;
  EXPECT_EQ(must_run(folder, {"schema", "--out", "a.json"}).out, "");
  EXPECT_TRUE(must_run(folder, {"schema", "--out", "-"}).out == folder.read("a.json"));
  EXPECT_EQ(json::parse(folder.read("a.json"))["$schema"],
            "http://json-schema.org/draft-07/schema#");
  const CommandResult refused = must_end(1, folder, {"schema", "--out", "none/a.json"});
  EXPECT_THAT(refused.err, HasSubstr("cannot write a file\n  where: none/a.json"));
}

TEST(SchemaCommand, TakesNoFileOfTheUsersForScratch) {
  const TemporaryFolder folder(".a.json", "mine");
  must_run(folder, {"schema", "--out", "a.json"});
  EXPECT_EQ(folder.read(".a.json"), "mine");
}

/// By links: a device whose place was taken would be lost to the whole machine.
TEST(SchemaCommand, WhatIsNoPlainFileIsWrittenIntoAndStays) {
  TemporaryFolder folder("a.json", "old");
  std::filesystem::create_symlink("a.json", folder.path() / "link");
  std::filesystem::create_symlink("/dev/full", folder.path() / "full");
  must_run(folder, {"schema", "--out", "link"});
  EXPECT_THAT(folder.read("a.json"), StartsWith("{"));
  EXPECT_THAT(run_ddprun(folder, {"schema", "--out", "full"}).err, HasSubstr("No space left"));
  for (const char* link : {"link", "full"}) {
    EXPECT_TRUE(std::filesystem::is_symlink(folder.path() / link)) << link;
  }
}

TEST(SchemaCommand, HasThePluginsThatItIsShown) {
  TemporaryFolder folder;
  const std::vector<std::string> shown = {"schema", "--plugin-path",
                                          DDPRUN_BUILD_DIR "/tests/plugins/planted"};
  const auto schema = json::parse(run_ddprun(folder, shown).out);
  const auto own = json::parse(run_ddprun(folder, {"schema"}).out);
  EXPECT_TRUE(schema["definitions"].contains("strategy.planted"));
  EXPECT_FALSE(own["definitions"].contains("strategy.planted"));
}

}  // namespace
}  // namespace ddprun::test
