// report.until and report.minutes from outside: as many turns as it takes.
#include "support/ddprun_command.h"

namespace ddprun::test {
namespace {

namespace fs = std::filesystem;

/// Two rows; the first is the base.
std::string two_rows(const std::string& report) {
  return tiny_experiment("sweep: {strategy: [flat, naive]}\nreport: {" + report + "}\n");
}

/// The round of each run, row by row.
std::vector<std::int64_t> rounds(const json& result) {
  std::vector<std::int64_t> out;
  for (const json& row : result.at("rows")) {
    EXPECT_EQ(row.at("status"), "ok");
    out.push_back(row.at("round"));
  }
  return out;
}

TEST(OpenRounds, EndWhenTheIntervalIsNarrowEnough) {
  TemporaryFolder folder("two.yaml", two_rows("until: 1, aa: false"));
  const CommandResult run = must_run(folder, {"two.yaml"});
  const auto found = only_result(folder, "two");
  const std::vector<std::int64_t> ran = rounds(result_of(folder, "two"));
  const auto each = static_cast<std::int64_t>(ran.size() / 2);
  ASSERT_GE(each, 6);
  ASSERT_LT(each, 30) << "plus and minus 100 % is soon reached";
  for (std::int64_t i = 0; i < each; ++i) {
    EXPECT_EQ(ran[i], i + 1);
    EXPECT_EQ(ran[each + i], i + 1);
  }
  const std::string words =
      "two: " + std::to_string(each) + " runs of each row: the widest interval is ";
  EXPECT_THAT(run.err, HasSubstr(words));
  EXPECT_EQ(std::distance(fs::directory_iterator(found / "resolved"), {}), 2 * each);
  EXPECT_FALSE(fs::exists(found / "rows")) << "what the table has stays beside it";

  const CommandResult again = must_run(folder, {"two.yaml", "--resume"});
  EXPECT_THAT(again.err, AllOf(HasSubstr("taken over"), HasSubstr(words)));
  EXPECT_FALSE(only_result(folder, "two").empty()) << "nothing was new";
}

TEST(OpenRounds, GoOnToTheMostOrToTheTime) {
  TemporaryFolder folder("most.yaml", two_rows("until: 1e-9, repeats: 7"));
  const CommandResult most = must_run(folder, {"most.yaml"});
  EXPECT_THAT(most.err, Not(HasSubstr("runs of each row")));
  EXPECT_EQ(
      rounds(result_of(folder, "most")),
      (std::vector<std::int64_t>{1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 1, 2, 3, 4, 5, 6, 7}));

  folder.write("time.yaml", two_rows("until: 1e-9, minutes: 0.001"));
  const CommandResult time = must_run(folder, {"time.yaml"});
  EXPECT_THAT(time.err, HasSubstr("time: 3 runs of each row: 0.001 minutes are over, the widest "
                                  "interval is "));
}

TEST(OpenRounds, NeedTurnsToChooseFrom) {
  TemporaryFolder folder("two.yaml", two_rows("until: 0.01, repeats: 6"));
  const std::string run = refusal_of(folder, {"validate", "two.yaml"});
  EXPECT_THAT(run, AllOf(HasSubstr("need turns to choose from"), HasSubstr("more than 6")));
  folder.write("two.yaml", two_rows("until: 0.01") + "output: {jsonl: true}\n");
  EXPECT_THAT(refusal_of(folder, {"validate", "two.yaml"}),
              HasSubstr("leave open which runs there are"));
  folder.write("two.yaml", two_rows("until: 0.01"));
  const CommandResult valid = must_run(folder, {"validate", "two.yaml"});
  EXPECT_THAT(valid.out, HasSubstr("2 experiments, up to 30 runs each"));
}

}  // namespace
}  // namespace ddprun::test
