// ddprun verify from outside: its verdict, its bounds, and verify.json.
#include "support/ddprun_command.h"

namespace ddprun::test {
namespace {

TEST(Verify, ComparesWithOneProcess) {
  TemporaryFolder folder("one.yaml", tiny_experiment());
  EXPECT_THAT(must_run(folder, {"verify", "one.yaml"}).out,
              AllOf(HasSubstr("lm_head.weight"), HasSubstr("passed: largest difference")));
  const json result = json::parse(read_file(only_result(folder, "one") / "verify.json"));
  const json& row = result.at("rows").at(0);
  EXPECT_EQ(row.at("passed"), true);
  EXPECT_EQ(row.at("steps").size(), 4U);
  EXPECT_EQ(row.at("steps")[3].at("losses").size(), 2U);
  EXPECT_NEAR(row.at("steps")[3].at("loss").get<double>(),
              row.at("steps")[3].at("loss_one_process").get<double>(), 1e-4);
  EXPECT_EQ(row.at("parameters")[0].at("update").at("value"), 0.0) << "equal bit by bit";
  for (const json& parameter : row.at("parameters")) {
    const json& gradient = parameter.at("gradient");
    EXPECT_LE(gradient.at("mean"), gradient.at("value")) << parameter;
    EXPECT_EQ(gradient.at("mean") > 0, gradient.at("value") > 0) << parameter;
  }
  const CommandResult strict = must_end(1, folder, {"verify", "one.yaml", "--bound", "0"});
  EXPECT_THAT(strict.out, HasSubstr("FAILED"));
}

TEST(Verify, BoundsParametersOfSgdAlone) {
  TemporaryFolder folder("one.yaml", tiny_experiment());
  EXPECT_THAT(refusal_of(folder, {"verify", "one.yaml", "--parameter-bound", "1"}),
              HasSubstr("--parameter-bound means nothing with AdamW"));
  const auto bounded = [](const char* bound) {
    return with_sets({"verify", "one.yaml", "--parameter-bound", bound},
                     {"optimizer={name: sgd, lr: 0.1}"});
  };
  must_run(folder, bounded("1e-6"));
  const CommandResult strict = must_end(1, folder, bounded("0"));
  EXPECT_THAT(strict.out, HasSubstr("step 0: after the update, "));
}

/// With a bound that only the rate of each parameter's group keeps.
TEST(Verify, KnowsFrozenTiedAndGroupedParameters) {
  TemporaryFolder folder("some.yaml", tiny_experiment());
  const CommandResult run = must_run(
      folder,
      with_sets({"verify", "some.yaml", "--bound", "1", "--parameter-bound", "1e-5"},
                {"precision=bf16_mixed", "model.layers=2", "model.frozen=[\"layers.0.*\"]",
                 "model.tie_embeddings=true", "strategy=zero1",
                 "optimizer={name: sgd, lr: 1, groups: [{match: \"*\", lr_scale: 0.001}]}"}));
  EXPECT_THAT(run.out, Not(HasSubstr("layers.0.")));
  EXPECT_THAT(run.out, Not(HasSubstr("lm_head")));
}

TEST(Verify, PassesWhereAGradientIsWhatRoundingLeaves) {
  TemporaryFolder folder("one.yaml", tiny_experiment());
  const CommandResult run =
      must_run(folder, with_sets({"verify", "one.yaml"},
                                 {"model.kernels=reference", "model.bias=true",
                                  "model.positions=learned", "model.recompute={groups: 1}"}));
  EXPECT_THAT(run.out, HasSubstr("attn.k_proj.bias"));
}

TEST(Verify, KnowsWhatRoundingLeavesOpenInFewerBits) {
  TemporaryFolder folder("one.yaml", tiny_experiment());
  for (const std::string precision : {"bf16_mixed", "fp16_mixed"}) {
    const auto in = [&](std::vector<std::string> words) {
      return with_sets(std::move(words), {"precision=" + precision, "model.kernels=reference"});
    };
    const CommandResult run = must_run(folder, in({"verify", "one.yaml"}));
    EXPECT_THAT(run.out, Not(HasSubstr("(bound 1e-05)"))) << precision;
    const CommandResult strict = must_end(1, folder, in({"verify", "one.yaml", "--bound", "1e-5"}));
    EXPECT_THAT(strict.out, HasSubstr("(bound 1e-05)")) << precision;
  }
}

TEST(Verify, WhatIsDoneStaysWhenItIsInterrupted) {
  TemporaryFolder folder("one.yaml", tiny_experiment("sweep: {train.steps: [2, 100000]}\n"));
  DdprunProcess process(folder, {"verify", "one.yaml"});
  ASSERT_TRUE(process.says("steps=100000: 2 ranks")) << process.err();
  kill(process.pid(), SIGINT);
  EXPECT_EQ(process.wait(), 128 + SIGINT) << process.out() << process.err();
  const json rows = json::parse(read_file(only_result(folder, "one") / "verify.json"))["rows"];
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0]["passed"], true);
  EXPECT_THAT(process.err(), HasSubstr("interrupted (signal 2): what was done is in results/one/"));
}

TEST(Verify, InterruptedInItsFirstRowItSaysSo) {
  TemporaryFolder folder("one.yaml", tiny_experiment({}, 100000));
  DdprunProcess process(folder, {"verify", "one.yaml"});
  ASSERT_TRUE(process.says("one: 2 ranks")) << process.err();
  kill(process.pid(), SIGINT);
  EXPECT_EQ(process.wait(), 128 + SIGINT) << process.out() << process.err();
  EXPECT_THAT(process.err(), HasSubstr("interrupted (signal 2): no result of one was written\n"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "results"));
}

TEST(Verify, RefusesWhatIsNotANumber) {
  TemporaryFolder folder("one.yaml", tiny_experiment());
  EXPECT_THAT(must_end(1, folder, {"verify", "one.yaml", "--set", "optimizer.lr=1e38"}).out,
              AllOf(HasSubstr("FAILED"), HasSubstr("nan")));
}

}  // namespace
}  // namespace ddprun::test
