// ddprun compare and explain, of results that runs wrote.
#include <filesystem>

#include "support/ddprun_command.h"

namespace ddprun::test::compare_test {
namespace {

namespace fs = std::filesystem;

/// Three runs of a row, whose strategy sleeps so long in each step.
class Compare : public testing::Test {
 protected:
  static constexpr const char* kStrategy = "strategy={name: slow, sleep_ms: 4}";
  static constexpr const char* kSlow = "--plugin-path=" DDPRUN_BUILD_DIR "/tests/plugins/slow";

  void measure(const std::string& output, const Words& sets = {}, const Words& launcher = {}) {
    folder_.write("e.yaml", tiny_experiment("report: {repeats: 3}\n", 6));
    const Words words = {"e.yaml", "--quiet", "--output", output, kSlow};
    must_run(folder_, with_sets(with_sets(words, {kStrategy}), sets), launcher);
  }
  /// The result with each step so many times as long: as a slower program would have written it.
  void write_slower(const std::string& from, const std::string& to, double times) {
    json result = json::parse(read_file(folder_.path() / from / "e/latest/result.json"));
    fs::create_directories(folder_.path() / to);
    for (json& row : result["rows"]) {
      row["occasion"]["time"] = "2026-01-31T12-00-00Z";
      for (json& rank : row["ranks"]) {
        for (json& step : rank["samples"]["step_ms"]) step = step.get<double>() * times;
      }
    }
    folder_.write(to + "/result.json", result.dump());
  }
  CommandResult compare(Words words, int status = 0) {
    words.insert(words.begin(), "compare");
    return must_end(status, folder_, words);
  }
  TemporaryFolder folder_;
};

TEST_F(Compare, TheSameProgramIsNotSlower) {
  measure("first");
  measure("second", {"world.threads_per_rank=1", "report.repeats=1"});
  EXPECT_THAT(compare({"first/e", "second/e"}, 2).err,
              HasSubstr("the results have no row in common"))
      << "another experiment";
  measure("third", {"name=later"});  // which is the same experiment
  const CommandResult same = compare(
      {"first/e", "third/later/latest/result.json", "--threshold", "100%", "--columns", "0"});
  EXPECT_THAT(same.out, AllOf(HasSubstr("first/e, then third/later/latest/result.json"),
                              HasSubstr("Both were measured under the same conditions"),
                              HasSubstr("the first"), HasSubstr("95 %: "),
                              HasSubstr("No row is slower by more than 100 %")));
}

TEST_F(Compare, OneRunIsNotHeldAgainstAThresholdAndDoesNotPass) {
  measure("first", {"report.repeats=1"});
  measure("second", {"report.repeats=1"});
  EXPECT_THAT(compare({"first/e", "second/e", "--threshold", "3%"}, 1).out,
              HasSubstr("it takes 3 runs or more of each"));
  compare({"first/e", "second/e"});  // no threshold
  EXPECT_THAT(compare({"first/e", "first/e"}).out, HasSubstr("Both are one and the same result"));
}

TEST_F(Compare, ASlowerOneIsStatusThree) {
  measure("first");
  measure("slower", {}, {"/usr/bin/env", "SLOW_EXTRA_MS=30"});
  EXPECT_THAT(compare({"first/e", "slower/e", "--threshold", "10%"}, 3).out,
              HasSubstr("slower by more than 10 %: "));
  compare({"slower/e", "first/e", "--threshold", "10%"});
  compare({"first/e", "slower/e"});  // no threshold
  const json all =
      json::parse(compare({"first/e", "slower/e", "--threshold=9%", "--format", "json"}, 3).out);
  EXPECT_EQ(all["status"], 3);
  const json& told = all["comparisons"][0];
  EXPECT_EQ(told["held"], "slower");
  EXPECT_EQ(told["rows"][0]["held"], "slower");
  EXPECT_EQ(told["rows"][0]["figure"], "step ms");
  EXPECT_GT(told["rows"][0]["ratio"], 1.5);
  EXPECT_GT(told["rows"][0]["interval"][0], 1.1);
  EXPECT_THAT(compare({"first/e", "slower/e", "--format", "csv"}, 2).err,
              HasSubstr("csv not in {table,markdown,json}"));
  EXPECT_THAT(compare({"first/e", "slower/e", "--format", "markdown"}).out,
              HasSubstr("### first/e, then slower/e"));
  // Written by hand, so its statistics do not agree: what no run can have written is refused.
  write_slower("first", "forged", 2);
  EXPECT_THAT(compare({"first/e", "forged"}, 2).err,
              AllOf(HasSubstr("not a result that this ddprun wrote"),
                    HasSubstr("does not agree with the rest")));
}

TEST_F(Compare, WhatIsNoResultIsRefused) {
  folder_.write("empty/x", "");
  folder_.write("killed/rows/01.json", "");
  folder_.write("damaged/result.json", "{\"schema_version\": 17, \"rows\": [");
  folder_.write("old/result.json", "{\"schema_version\": 3, \"rows\": []}");
  const auto refusal = [this](const std::string& path) {
    return refusal_of(folder_, {"explain", path});
  };
  EXPECT_THAT(refusal("absent"), HasSubstr("there is no result"));
  EXPECT_THAT(refusal("empty"), HasSubstr("a folder without a result.json"));
  EXPECT_THAT(refusal("killed"), HasSubstr("the rows of a run that goes on, or was ended"));
  EXPECT_THAT(refusal("damaged"), HasSubstr("not a result that this ddprun wrote"));
  EXPECT_THAT(refusal("old"), HasSubstr("schema version 3"));
  EXPECT_THAT(compare({"absent"}, 2).err, HasSubstr("there is nothing to compare with"));
  for (const char* share : {"much", "3", "-3%", "nan"}) {
    EXPECT_THAT(compare({"a", "b", std::string("--threshold=") + share}, 2).err,
                HasSubstr("--threshold needs a share"))
        << share;
  }
  EXPECT_THAT(refusal(std::string(300, 'x')), HasSubstr("there is no result"));
  // The system will not say whether it is there, as in a folder that one may not read.
  folder_.write("looped/x", "");
  fs::create_symlink("result.json", folder_.path() / "looped/result.json");
  EXPECT_THAT(run_ddprun(folder_, {"explain", "looped"}).err,
              AllOf(HasSubstr("a file or a folder cannot be looked at"),
                    HasSubstr("where: looped/result.json"), HasSubstr("got: Too many levels")));
}

TEST_F(Compare, ExplainSaysWhatTheRunSaid) {
  folder_.write("e.yaml", tiny_experiment("sweep: {strategy: [naive, flat]}\n"
                                          "report: {repeats: 3, columns: [proof, step_ms]}\n",
                                          6));
  const CommandResult run = must_run(folder_, {"e.yaml", "--quiet", "--columns", "0"});
  const CommandResult told = must_run(folder_, {"explain", "results/e", "--columns", "0"});
  const std::string sentence = run.out.substr(run.out.find("naive, which ran twice"));
  EXPECT_THAT(told.out, HasSubstr(sentence.substr(0, sentence.find('\n'))));
  EXPECT_THAT(must_run(folder_, {"explain", "results/e", "--format", "markdown"}).out,
              HasSubstr("\n| strategy | proof | step ms |\n"))
      << "the columns that the file asks for";
  // What programs read is nothing but that; which result it is stands on the other stream.
  const CommandResult csv = run_ddprun(folder_, {"explain", "results/e", "--format", "csv"});
  EXPECT_THAT(csv.out, AllOf(StartsWith("row,label,"), HasSubstr(",flat,all,step_ms,ms,")));
  const CommandResult json = run_ddprun(folder_, {"explain", "results/e", "--format", "json"});
  EXPECT_EQ(nlohmann::json::parse(json.out).at("table").size(), 2);
  EXPECT_THAT(json.err, HasSubstr("results/e"));
}

}  // namespace
}  // namespace ddprun::test::compare_test
