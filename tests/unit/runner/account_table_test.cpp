// The figures of `ddprun account`, from accounts that were made up.
#include "runner/report/account_table.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/matchers.h"

namespace ddprun::account_table_test {
namespace {

/// A second of computing, and all-reduces of 1e8 bytes that take 0.1 s on 2 ranks, 0.15 s on 4.
AccountLine line_of(const std::string& label, int ranks, std::int64_t count, double enqueued) {
  AccountLine line{.label = label, .account = {.ranks = ranks}, .memory_bytes = 9e6};
  Account& account = line.account;
  account.phases = {{"setup", {}}, {"forward", {}}, {"backward", {}}};
  account.phases[0].at_peak[MemoryCategory::parameters] = 9'000'000;
  account.phases[1].at_peak[MemoryCategory::parameters] = 3'000'000;
  account.phases[1].at_peak[MemoryCategory::saved] = 4'000'000;
  account.phases[2].at_peak[MemoryCategory::parameters] = 6'000'000;
  account.work = {.operations = 1e9};
  account.tokens = 101;
  if (count > 0) {
    account.collectives = {{.kind = CollectiveKind::all_reduce,
                            .bytes = 100'000'000,
                            .ranks = ranks,
                            .ranks_per_host = ranks,
                            .count = count,
                            .enqueued = {.operations = enqueued},
                            .awaited = account.work}};
  }
  line.speed = {.operations_per_s = 1e9, .links = {{1e9, 0}, {1e8, 0}}};
  return line;
}

std::vector<AccountLine> some_lines() {
  std::vector<AccountLine> lines = {line_of("a", 2, 3, 0.9e9), line_of("a", 4, 8, 0.5e9),
                                    line_of("b", 8, 0, 0)};
  lines[2].account.phases[0].at_peak[MemoryCategory::parameters] = 10'000'000;
  return lines;
}

TEST(AccountTable, HasMegabytesMillisecondsAndTheTokensThatHideCommunication) {
  EXPECT_THAT(
      account_output(some_lines(), ReportFormat::markdown, {}),
      AllOf(HasSubstr("| a | 2 | 3.00 | 4.00 | 7.00 | forward | 9.00 | yes | 0.00 | 3 | 300.00 | "
                      "1000.000 | 300.000 | 200.000 | 1200.000 | 31 |\n"),
            HasSubstr("| a | 4 | 3.00 | 4.00 | 7.00 | forward | 9.00 | yes | 0.00 | 8 | 800.00 | "
                      "1000.000 | 1200.000 | 700.000 | 1700.000 | 122 |\n"),
            HasSubstr("| 10.00 | no | -1.00 | 0 | 0.00 | 1000.000 | 0.000 | 0.000 | 1000.000 |")));
}

TEST(AccountTable, NamesTheFastestThatFitsAndWhereComputingTakesLonger) {
  EXPECT_THAT(
      account_output(some_lines(), ReportFormat::markdown, {}),
      EndsWith("|\na: computing takes longer than communication on up to 2 ranks\n"
               "The fastest row that fits in 0.009 GB: a on 4 ranks, 1700.000 ms a step, 238 "
               "tokens/s\n"));
}

TEST(AccountTable, OnANarrowTerminalParametersAreTheLastCategoryToGo) {
  int kept = 0;
  for (int width = 60; width < 200; ++width) {
    const std::string out = account_output(some_lines(), ReportFormat::table, {.width = width});
    const std::string dropped = out.substr(std::min(out.size(), out.find("too few for: ")));
    const bool saved = dropped.find("saved for backward") == std::string::npos;
    const bool parameters = dropped.find("parameters") == std::string::npos;
    EXPECT_TRUE(parameters || !saved) << width;
    if (parameters && !saved) ++kept;
  }
  EXPECT_GE(kept, 1);
}

TEST(AccountTable, JsonHasTheSame) {
  const auto json = nlohmann::json::parse(account_output(some_lines(), ReportFormat::json, {}));
  for (const auto& [key, value] :
       {std::pair("payload_bytes", 3e8), std::pair("wire_bytes", 3e8), std::pair("left_bytes", 0.0),
        std::pair("computing_ms", 1000.0), std::pair("communication_ms", 300.0),
        std::pair("exposed_ms", 200.0), std::pair("step_ms", 1200.0),
        std::pair("tokens_per_s", 202 / 1.2), std::pair("least_tokens", 30.3)}) {
    EXPECT_NEAR(json[0][key].get<double>(), value, 1e-6) << key;
  }
  EXPECT_EQ(json[0]["fastest"], false);
  EXPECT_EQ(json[1]["fastest"], true);
}

}  // namespace
}  // namespace ddprun::account_table_test
