// ddprun report, and the page that a run writes beside its result.
#include <filesystem>
#include <string>

#include "support/ddprun_command.h"

namespace ddprun::test::report_command_test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPaper =
    "experiment: arithmetic\narithmetic: {d_model: 8, d_ff: 32, layers: 2, tflops: 1, "
    "link_gb_per_s: 1}\nsweep: {arithmetic.data_ranks: [1, 2]}\n";

class Report : public testing::Test {
 protected:
  CommandResult ddprun(const Words& words, int status = 0) {
    return must_end(status, folder_, words);
  }
  void measure(const std::string& file, const std::string& text) {
    folder_.write(file, text);
    ddprun({file, "--quiet"});
  }
  std::string page(const std::string& file) { return read_file(folder_.path() / file); }
  nlohmann::json data(const std::string& file) {
    const std::string text = page(file), begin = "id=\"data\">";
    const std::size_t at = text.find(begin) + begin.size();
    return json::parse(text.substr(at, text.find("</script>", at) - at));
  }
  TemporaryFolder folder_;
};

TEST_F(Report, ResultsOfDifferentKindsHaveASectionEach) {
  measure("paper.yaml", kPaper);
  measure("e.yaml", tiny_experiment("", 3));
  EXPECT_EQ(ddprun({"report", "results/paper"}).out, "report: report.html\n");
  EXPECT_EQ(data("report.html").size(), 1U);
  const CommandResult printed = ddprun({"report", "results/paper", "-o", "-"});
  EXPECT_EQ(printed.out, page("report.html"));
  EXPECT_EQ(printed.err, "report: -\n");
  EXPECT_FALSE(fs::exists(folder_.path() / "-"));
  ddprun({"report", "results/e/latest/result.json", "results/paper/latest", "-o", "both.html"});
  const json results = data("both.html");
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0]["result"]["name"], "e");
  EXPECT_TRUE(results[0]["kinds"].contains("training"));
  EXPECT_TRUE(results[1]["kinds"].contains("arithmetic"));
  EXPECT_EQ(results[1]["result"]["table"].size(), 2U);
  EXPECT_EQ(results[1]["place"], "results/paper/latest/result.json");
}

TEST_F(Report, ARunWritesThePageThatTheCommandWould) {
  measure("paper.yaml", std::string(kPaper) + "report: {html: true}\n");
  ASSERT_TRUE(fs::exists(folder_.path() / "results/paper/latest/report.html"));
  ddprun({"report", "results/paper"});
  nlohmann::json of_command = data("report.html");
  of_command[0]["place"] = "";
  EXPECT_EQ(data("results/paper/latest/report.html"), of_command);
  measure("without.yaml", kPaper);
  EXPECT_FALSE(fs::exists(folder_.path() / "results/without/latest/report.html"));
}

/// Only the latest is read, however many there are, and whatever the others are.
TEST_F(Report, OfAFolderOfResultsTheLatestIsTakenAndNamed) {
  measure("paper.yaml", kPaper);
  nlohmann::json result = json::parse(page("results/paper/latest/result.json"));
  const auto write = [&](const std::string& time) {
    result["time"] = time;
    folder_.write("many/" + time + "/result.json", result.dump());
  };
  for (int i = 100; i < 600; ++i) write("2026-01-01T00-00-00Z-" + std::to_string(i));
  folder_.write("many/2025-12-31T00-00-00Z/result.json", "{\"schema_version\": 3}");
  const std::string newest = "2026-01-01T00-00-00Z-599",
                    of_many = newest + ", the latest of 501 results";
  EXPECT_EQ(ddprun({"report", "many"}).out, "report: report.html\nmany: " + of_many + "\n");
  EXPECT_EQ(data("report.html")[0]["result"]["time"], newest);
  EXPECT_THAT(ddprun({"explain", "many"}).out,
              HasSubstr("many/" + newest + "/result.json (" + of_many + "):\n"));
  EXPECT_THAT(ddprun({"compare", "many/2026-01-01T00-00-00Z-100", "many"}).out,
              HasSubstr("\n\nmany: " + of_many + "\n"));
  EXPECT_THAT(ddprun({"report", "."}, 2).err,
              AllOf(HasSubstr("got: a folder of folders of results, 1 of them"),
                    HasSubstr("hint: name one or more of them: ./many")))
      << "they have no link to the latest";
  EXPECT_THAT(ddprun({"report", "results"}, 2).err,
              AllOf(HasSubstr("got: a folder of folders of results, 1 of them"),
                    HasSubstr("hint: name one or more of them: results/paper")));
}

TEST_F(Report, WhatCannotBeShownIsRefusedInFiveParts) {
  measure("paper.yaml", kPaper);
  folder_.write("empty/x", "");
  folder_.write("old/result.json", "{\"schema_version\": 3, \"rows\": []}");
  folder_.write("none/result.json", "{\"schema_version\": 17, \"rows\": []}");
  const auto refusal = [this](Words words, int status) {
    words.insert(words.begin(), "report");
    const std::string said = ddprun(words, status).err;
    EXPECT_THAT(said, AllOf(HasSubstr("error: "), HasSubstr("\n  where: "), HasSubstr("\n  got: "),
                            HasSubstr("\n  expected: "), HasSubstr("\n  hint: ")));
    return said;
  };
  EXPECT_THAT(refusal({"absent"}, 2), HasSubstr("there is no result"));
  EXPECT_THAT(refusal({"empty"}, 2), HasSubstr("a folder without a result.json"));
  EXPECT_THAT(refusal({"old"}, 2), HasSubstr("schema version 3"));
  EXPECT_THAT(refusal({"none"}, 2), HasSubstr("the result has no rows"));
  EXPECT_THAT(refusal({"results/paper", "-o", "absent/x.html"}, 1),
              AllOf(HasSubstr("cannot write a file"), HasSubstr("No such file or directory")));
  EXPECT_THAT(refusal({"results/paper", "-o", "empty"}, 1), HasSubstr("Is a directory"));
  EXPECT_FALSE(fs::exists(folder_.path() / "report.html"));
  ddprun({"report"}, 2);
}

}  // namespace
}  // namespace ddprun::test::report_command_test
