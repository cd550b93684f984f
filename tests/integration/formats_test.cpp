// What a batch prints into a pipe, for every kind of experiment: 100 columns, or another format and
// nothing beside it.
#include <algorithm>

#include "support/ddprun_command.h"

namespace ddprun::test {
namespace {

/// A folder with a file of each kind.
void write_kinds(const TemporaryFolder& folder) {
  folder.write("all/training.yaml", tiny_experiment());
  folder.write("all/collectives.yaml",
               "experiment: collectives\nworld: {size: 2, backend: shm}\n"
               "collectives: {bytes: 1000}\nrepeat: {warmup: 1, count: 5}\n");
  folder.write("all/attention.yaml",
               "experiment: attention\nattention: eager\n"
               "attention_call: {batch: 1, length: 16, head_dim: 16}\n"
               "repeat: {warmup: 1, count: 5}\n");
  folder.write("all/precision.yaml",
               "experiment: precision\ndemonstration: {name: accumulation}\n");
}

/// Every character of these tables takes one column.
int columns_of(const std::string& line) {
  return static_cast<int>(std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; }));
}

int widest_of_table(const std::string& text) {
  int widest = 0;
  for (const std::string& line : lines_of(text)) {
    if (line.empty() && widest > 0) break;  // sentences follow
    widest = std::max(widest, columns_of(line));
  }
  return widest;
}

TEST(Formats, AreCleanForEveryKindOfExperiment) {
  TemporaryFolder folder;
  write_kinds(folder);
  const CommandResult run = must_run(folder, {"all/", "--format", "json"});
  const json result = json::parse(run.out);
  ASSERT_EQ(result["rows"].size(), 4u);
  EXPECT_EQ(result["name"], "");
  for (const json& row : result["rows"]) EXPECT_EQ(row["status"], "ok") << row["kind"];
  EXPECT_EQ(result["table"].size(), 4u);
  EXPECT_THAT(run.err, HasSubstr("results: results/training/"));

  const CommandResult csv = run_ddprun(folder, {"all/", "--resume", "--format", "csv"});
  EXPECT_THAT(csv.out, StartsWith("row,label,run,quantity,"));
  EXPECT_THAT(csv.out, Not(HasSubstr("results:")));
  const CommandResult markdown =
      run_ddprun(folder, {"all/", "--resume", "--quiet", "--format", "markdown"});
  EXPECT_THAT(markdown.out, AllOf(StartsWith("| "), HasSubstr("\n- proved in ")));
  EXPECT_EQ(markdown.err, "");
}

TEST(Formats, OfOneFileAreThoseOfItsResult) {
  TemporaryFolder folder("one.yaml", tiny_experiment());
  const CommandResult run = must_run(folder, {"one.yaml", "--format", "json"});
  const json printed = json::parse(run.out), written = result_of(folder, "one");
  for (const char* key : {"schema_version", "name", "rows", "table", "findings"}) {
    EXPECT_EQ(printed[key], written[key]) << key;
  }
  const CommandResult csv = run_ddprun(folder, {"one.yaml", "--resume", "--format", "csv"});
  EXPECT_EQ(csv.out, read_file(only_result(folder, "one") / "summary.csv"));
}

TEST(Formats, ATableInAPipeHas100Columns) {
  TemporaryFolder folder("one.yaml", tiny_experiment());
  const std::string plain = run_ddprun(folder, {"one.yaml"}).out;
  EXPECT_LE(widest_of_table(plain), 100) << plain;
  EXPECT_GT(widest_of_table(plain), 50) << plain;
  EXPECT_THAT(plain, HasSubstr("100 columns are too few for: "));
  const std::string narrow = run_ddprun(folder, {"one.yaml", "--resume", "--columns", "60"}).out;
  EXPECT_LE(widest_of_table(narrow), 60) << narrow;
  const std::string whole = run_ddprun(folder, {"one.yaml", "--resume", "--columns", "0"}).out;
  EXPECT_GT(widest_of_table(whole), 200) << whole;
  EXPECT_THAT(whole, Not(HasSubstr("too few")));
}

TEST(Formats, BadValuesAreRefused) {
  TemporaryFolder folder("one.yaml", tiny_experiment());
  const auto refusal = [&folder](Words words) {
    words.emplace_back("one.yaml");
    const CommandResult run = must_end(2, folder, words);
    EXPECT_EQ(run.out, "");
    return run.err;
  };
  EXPECT_THAT(refusal({"--format", "json", "--set", "unknown=1"}), HasSubstr("unknown key"));
  EXPECT_THAT(refusal({"--format", "xml"}), HasSubstr("xml not in {table,markdown,csv,json}"));
  EXPECT_THAT(refusal({"--columns", "-1"}),
              AllOf(HasSubstr("-1 is not in 0 to "), HasSubstr("100000")));
  EXPECT_THAT(refusal({"--columns", "wide"}), HasSubstr("wide"));
  EXPECT_THAT(refusal({"--columns", "80", "--format", "csv"}),
              AllOf(HasSubstr("--columns has no effect"), HasSubstr("--format csv")));
  for (const char* command : {"account", "tune", "explain"}) {
    EXPECT_THAT(
        refusal_of(folder, {command, "one.yaml", "--columns", "80", "--format", "markdown"}),
        HasSubstr("--columns has no effect"))
        << command;
  }
}

}  // namespace
}  // namespace ddprun::test
