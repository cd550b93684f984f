// Strategies that promise less than the mean, and the loss by which they are judged, as a user runs
// them.
#include <numbers>

#include "support/ddprun_command.h"

namespace ddprun::test {
namespace {

std::string status_of(const json& proof, const std::string& check) {
  return element_of(proof["checks"], "name", check).value("status", "absent");
}

TEST(Declared, IsWhatTheTableSays) {
  TemporaryFolder folder("less.yaml",
                         tiny_experiment("sweep: {strategy: [flat, powersgd, {name: local_sgd, "
                                         "every: 2}]}\n",
                                         /*steps=*/4));
  const CommandResult run = must_run(
      folder, {"less.yaml", "--set", "train.eval.every=2", "--set", "optimizer.clip_norm=0.1"});
  EXPECT_THAT(run.out, AllOf(HasSubstr("✓ proved"), HasSubstr("✓ as declared"),
                             HasSubstr("with the error feedback the mean"),
                             HasSubstr("the ranks averaged in 2 of 5 steps: gradients are each "
                                       "rank's own, as the strategy declares")));
  const json rows = rows_of(folder, "less");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["proof"]["status"], "passed");
  for (const int row : {1, 2}) {
    const json& proof = rows[row]["proof"];
    EXPECT_EQ(proof["status"], "declared");
    EXPECT_EQ(status_of(proof, "integer_gradients"), "declared");
    EXPECT_EQ(status_of(proof, "collectives_as_planned"), "passed");
    EXPECT_EQ(status_of(proof, "step_scalars_equal"), "passed");
    EXPECT_EQ(status_of(proof, "parameters_equal"), "passed");  // at the last meeting
  }
  EXPECT_GT(rows[1]["statistics"]["error_feedback"]["median"], 0.0);
  for (const json& row : rows) {
    const json& loss = row["statistics"]["validation_loss"];
    EXPECT_NEAR(loss["first"], 5.55, 0.3);  // ln 256
    EXPECT_TRUE(loss["last"].is_number());
    const json& losses = row["ranks"][0]["samples"]["validation_loss"];
    EXPECT_TRUE(losses[0].is_null());
    EXPECT_TRUE(losses[1].is_number());
  }
  EXPECT_TRUE(rows[0]["statistics"]["consensus_distance"]["first"].is_null())
      << "ranks never differ";
  EXPECT_LT(rows[2]["statistics"]["consensus_distance"]["first"], 1e-7) << "they have just met";
}

TEST(Declared, WhatIsSentWithoutErrorFeedbackGoesTheWayOfTheMean) {
  TemporaryFolder folder("less.yaml", tiny_experiment("", 2));
  must_run(folder, with_sets({"less.yaml"}, {"strategy={name: powersgd, rank: 1, "
                                             "error_feedback: false, warm_start: false}",
                                             "model.d_model=192"}));
  const json proof = rows_of(folder, "less")[0]["proof"];
  EXPECT_EQ(status_of(proof, "gradients_averaged"), "declared");
}

TEST(Declared, AnOuterStepOfAStrategysOwnIsNotChecked) {
  TemporaryFolder folder("less.yaml", tiny_experiment("", 4));
  const CommandResult run = must_run(
      folder, with_sets({"less.yaml"}, {"strategy={name: local_sgd, every: 2, outer_lr: 0.7}"}));
  EXPECT_THAT(run.out, HasSubstr("the ranks averaged in 2 of 5 steps and took outer steps, which "
                                 "no check computes: "));
}

TEST(Declared, GossipIsHeldToItsWeights) {
  TemporaryFolder folder("gossip.yaml", tiny_experiment("", 4));
  const CommandResult run = must_run(folder, {"gossip.yaml", "--set", "strategy=gossip", "--set",
                                              "world.size=4", "--set", "train.eval.every=5"});
  EXPECT_THAT(run.out,
              AllOf(HasSubstr("the ranks averaged in 5 of 5 steps"),
                    HasSubstr("each rank has a mean of its own, as the strategy declares")));
  const json result = result_of(folder, "gossip");
  const json& proof = result["rows"][0]["proof"];
  EXPECT_EQ(proof["status"], "declared");
  EXPECT_EQ(status_of(proof, "parameters_updated"), "passed");
  EXPECT_GT(result["rows"][0]["statistics"]["consensus_distance"]["last"], 1e-5);
  EXPECT_THAT(
      refusal_of(folder, {"gossip.yaml", "--set", "strategy=gossip", "--set", "world.size=3"}),
      HasSubstr("a world.size that is a power of two, 2 or more"));
}

TEST(Declared, RanksThatNeverAverageAreAControl) {
  TemporaryFolder folder("less.yaml", tiny_experiment("", 2));
  const CommandResult run =
      must_run(folder, {"less.yaml", "--set", "strategy={name: local_sgd, every: 100}"});
  EXPECT_THAT(run.out, HasSubstr("control"));
  const json result = result_of(folder, "less");
  const json& proof = result["rows"][0]["proof"];
  EXPECT_EQ(proof["status"], "control");
  EXPECT_EQ(status_of(proof, "parameters_equal"), "control");
}

TEST(Declared, AMeanOfOneRankMayBeRounded) {
  TemporaryFolder folder("less.yaml", tiny_experiment("", 7));
  must_run(folder, with_sets({"less.yaml"}, {"strategy={name: local_sgd, every: 3}", "world.size=1",
                                             "optimizer.lr=0.01"}));
  const json result = result_of(folder, "less");
  EXPECT_EQ(status_of(result["rows"][0]["proof"], "parameters_updated"), "passed");
}

TEST(Declared, TheModelWritesTextWhateverTheStrategyKeepsOfIt) {
  TemporaryFolder folder("text.txt", std::string(4000, 'a'));
  folder.write("held_out.txt", std::string(400, 'a'));
  folder.write("e.yaml", tiny_experiment("sweep: {strategy: [flat, fsdp]}\n", 20));
  const CommandResult run = must_run(
      folder, {"e.yaml", "--set", "data={source: text, path: text.txt}", "--set",
               "optimizer.lr=0.03", "--set", "train.sample={every: 7, tokens: 40, temperature: 0}",
               "--set", "train.eval={every: 7, path: held_out.txt}"});
  EXPECT_THAT(run.out, HasSubstr("wrote after 21 steps, at "));
  EXPECT_THAT(run.out, HasSubstr("\"The " + std::string(40, 'a') + "\"")) << "what it was taught";
  for (const json& row : rows_of(folder, "e")) {
    for (const json& rank : row["ranks"]) {
      ASSERT_EQ(rank["texts"].size(), 3u);
      EXPECT_EQ(rank["texts"][2]["step"], 21);
      EXPECT_EQ(rank["texts"], row["ranks"][0]["texts"]);
      const json& samples = rank["samples"];
      EXPECT_NEAR(samples["bits_per_byte"][20],
                  samples["validation_loss"][20].get<double>() / std::numbers::ln2, 1e-9);
    }
  }
  EXPECT_THAT(refusal_of(folder, {"e.yaml", "--set", "train.sample.every=7"}),
              HasSubstr("train.sample writes text, behind a prompt"));
}

TEST(Declared, VerifyRefusesWhatItCannotCompare) {
  TemporaryFolder folder("less.yaml", tiny_experiment("", 2));
  for (const char* strategy :
       {"strategy=powersgd", "strategy=local_sgd", "strategy={name: none, unsynchronized: true}"}) {
    const CommandResult run = must_end(2, folder, {"verify", "less.yaml", "--set", strategy});
    EXPECT_EQ(run.out, "") << "it began";
    EXPECT_THAT(run.err, HasSubstr("verify compares each gradient with that of one process"));
  }
}

TEST(Declared, HeldOutDataIsCheckedBeforeARankStarts) {
  TemporaryFolder folder("text.txt", std::string(400, 'a'));
  folder.write("held_out.txt", std::string(400, 'b'));
  folder.write("e.yaml", tiny_experiment("", 2));
  const auto evaluating = [](const std::string& path) {
    return with_sets({"e.yaml"},
                     {"data={source: text, path: text.txt}", "train.eval={every: 1" + path + "}"});
  };
  EXPECT_THAT(refusal_of(folder, evaluating("")),
              HasSubstr("train.eval needs data that is not trained on"));
  EXPECT_THAT(refusal_of(folder, evaluating(", path: absent.txt")),
              AllOf(HasSubstr("absent.txt"), HasSubstr("no such file or folder")));
  must_run(folder, evaluating(", path: held_out.txt"));
}

}  // namespace
}  // namespace ddprun::test
