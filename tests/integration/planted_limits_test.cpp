// Causes that are planted in real runs, and the sentences that must name them. What is planted
// takes many milliseconds, and the links are shaped, so a busy machine changes little.
#include <map>

#include "ddprun/base/text.h"
#include "support/ddprun_command.h"

namespace ddprun::test::planted_limits_test {
namespace {

/// Of all gradients the head's alone is large.
const Words kLargeHead = {"model.vocab_size=10000",  "model.d_model=64",
                          "model.kernels=reference", "model.frozen=[token_embeddings.*]",
                          "optimizer.name=sgd",      "train.batch_per_rank=1",
                          "train.warmup_steps=2"};

/// Runs it in `folder`. Skips the test where the system has no hosts to shape a link between.
CommandResult run_on(const TemporaryFolder& folder, const std::string& strategy, int steps,
                     const std::string& rate = {}) {
  folder.write("planted.yaml", tiny_experiment({}, steps));
  Words launcher;
  if (!rate.empty()) launcher = two_hosts(1, {"--burst", "32kb", "--rate", rate});
  const Words words = {"planted.yaml", "--plugin-path", DDPRUN_BUILD_DIR "/tests/plugins/slow",
                       "--set", "strategy=" + strategy};
  return run_ddprun(folder, with_sets(words, kLargeHead), launcher);
}

/// The sentence of that sort with its numbers; empty: there is none.
json finding(const TemporaryFolder& folder, const std::string& what) {
  return element_of(result_of(folder, "planted")["findings"], "finding", what);
}

/// Of collectives.csv: what limited each collective, by its label.
std::map<std::string, std::string> limits(const TemporaryFolder& folder) {
  std::map<std::string, std::string> out;
  for (const auto& line : lines_of(read_file(only_result(folder, "planted") / "collectives.csv"))) {
    const std::vector<std::string> cells = split_at(line, ',');
    out[cells.at(4)] = cells.back();
  }
  return out;
}

TEST(PlantedLimits, ARankThatBecomesSlowInBackwardIsNamed) {
  const TemporaryFolder folder;
  const CommandResult run =
      run_on(folder, "{name: slow, sleep_ms: 200, rank: 1, first: 10}", /*steps=*/18);
  ASSERT_EQ(run.status, 0) << run.err;
  const json slow = finding(folder, "slow_rank");
  ASSERT_FALSE(slow.empty()) << run.out;
  EXPECT_EQ(slow["rank"], 1);
  EXPECT_EQ(slow["phase"], "backward");
  EXPECT_EQ(slow["since"], 8) << "of the measured steps, from 0";
  EXPECT_NEAR(slow["behind_ms"].get<double>(), 200.0 * 10 / 18, 40);
  EXPECT_THAT(run.out,
              HasSubstr("(since measured step 9), most of it in backward: the others wait for it"));
  EXPECT_EQ(limits(folder)["layers.0.ln1.weight"], "slow_rank");
}

TEST(PlantedLimits, MemoryThatGrowsAfterTheWarmUpIsSaid) {
  const TemporaryFolder folder;
  EXPECT_THAT(run_on(folder, "slow", /*steps=*/6).err, Not(HasSubstr("memory grew")));
  const CommandResult run = run_on(folder, "{name: slow, leak_mb: 20}", /*steps=*/6);
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("memory grew by 1"));
  EXPECT_THAT(run.err, HasSubstr("MB in measured steps: peak memory is that of a warm-up step"));
}

TEST(PlantedLimits, AGradientThatIsAskedForLateIsNamed) {
  const TemporaryFolder folder;
  const CommandResult run =
      run_on(folder, "{name: slow, sleep_ms: 400, late: 0}", /*steps=*/3, "200mbit");
  if (run.status == kNotPossible) GTEST_SKIP() << run.err;
  ASSERT_EQ(run.status, 0) << run.err;
  const json limit = finding(folder, "limit");
  ASSERT_FALSE(limit.empty()) << run.out;
  EXPECT_EQ(limit["limit"], "late") << limit;
  EXPECT_THAT(run.out, HasSubstr("come too late to be hidden, lm_head.weight last"));
  const auto by_label = limits(folder);
  EXPECT_EQ(by_label.at("lm_head.weight"), "late");
  EXPECT_EQ(by_label.at("layers.0.ffn.w1.weight"), "hidden");
}

/// Payload of an all-reduce between two ranks, 1e9 bytes a second: each sends as many.
class ShapedLink : public testing::TestWithParam<std::pair<const char*, double>> {};

TEST_P(ShapedLink, IsNamedWithItsRate) {
  const auto [rate, gb_per_s] = GetParam();
  const TemporaryFolder folder;
  const CommandResult run = run_on(folder, "slow", /*steps=*/5, rate);
  if (run.status == kNotPossible) GTEST_SKIP() << run.err;
  ASSERT_EQ(run.status, 0) << run.err;
  const json limit = finding(folder, "limit");
  ASSERT_FALSE(limit.empty()) << run.out;
  EXPECT_EQ(limit["limit"], "link") << limit;
  const double share = limit["gb_per_s"].get<double>() / gb_per_s;
  EXPECT_GT(share, 0.6) << limit << ": a busy machine sends less";
  EXPECT_LT(share, 1.25) << limit;
  EXPECT_THAT(run.out, HasSubstr("are more than the link carries while ranks compute"));
}

INSTANTIATE_TEST_SUITE_P(Rates, ShapedLink,
                         testing::Values(std::pair("100mbit", 0.0125),
                                         std::pair("300mbit", 0.0375)),
                         [](const auto& info) { return std::string(info.param.first); });

}  // namespace
}  // namespace ddprun::test::planted_limits_test
