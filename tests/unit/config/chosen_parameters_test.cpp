// What a file may say of single parameters: which are frozen, tied, or have settings of their own.
#include "ddprun/experiments/training/training_config.h"
#include "support/experiment_fixture.h"
#include "support/matchers.h"

namespace ddprun {
namespace {

class ChosenParameters : public ExperimentTest {};

std::string least_and(const std::string& more) { return kLeast + more; }

TEST_F(ChosenParameters, AreSweptAndWritten) {
  const ExperimentFile file = load(least_and(R"(
model: {layers: 2, tie_embeddings: true}
sweep:
  model.frozen: [[], ["layers.0.*", "ln_final.*"]]
  optimizer.groups: [[], [{match: "*ln*", weight_decay: 0}, {match: "layers.1.*", lr_scale: 0.5}]]
)"));
  ASSERT_EQ(file.experiments.size(), 4U);
  const Experiment& last = file.experiments[3];
  EXPECT_TRUE(training(last).model.tie_embeddings);
  EXPECT_EQ(training(last).model.frozen.size(), 2U);
  ASSERT_EQ(training(last).optimizer.groups.size(), 2U);
  EXPECT_EQ(training(last).optimizer.groups[0].weight_decay, 0.0);
  EXPECT_FALSE(training(last).optimizer.groups[1].weight_decay.has_value()) << "the optimizer's";
  const ConfigNode resolved = parse_yaml(to_yaml(resolve(last)), "again");  // as it is written
  EXPECT_EQ(
      compact(*resolved.find("optimizer")->find("groups")),
      "[{match: \"*ln*\", lr_scale: 1, weight_decay: 0}, {match: layers.1.*, lr_scale: 0.5}]");
  EXPECT_EQ(compact(*resolved.find("model")->find("frozen")), "[layers.0.*, ln_final.*]");
}

TEST_F(ChosenParameters, AreRefusedWhereTheyChooseNothing) {
  const std::string frozen = least_and("model: {layers: 2, frozen: [\"layers.2.*\"]}\n");
  EXPECT_THAT(error(frozen), StartsWith("model.frozen chooses no parameter\n"
                                        "  where: run.yaml:5:20\n"
                                        "  got: \"layers.2.*\"\n"
                                        "  expected: a pattern of names such as "
                                        "token_embeddings.weight, layers.0.ln1.weight, "));
  EXPECT_EQ(error(frozen, {"model.layers=3"}), "no error");
  EXPECT_THAT(error(frozen, {"model.layers=3", "world.size=1", "train.measure=forward"}),
              StartsWith("model.frozen has no effect with train.measure forward\n"));
  const std::string groups = least_and("model: {frozen: [\"layers.0.*\"]}\n");
  EXPECT_THAT(error(groups, {"optimizer.groups=[{match: \"*ln*\"}, {match: \"layers.0.*\"}]"}),
              AllOf(StartsWith("optimizer.groups[1].match chooses no parameter\n"),
                    HasSubstr("what is frozen is not there")));
  EXPECT_THAT(error(groups, {"optimizer.groups={lr_scale: 2}"}),
              AllOf(StartsWith("optimizer.groups[0].match chooses no parameter\n"),
                    HasSubstr("got: no pattern")));
  EXPECT_THAT(error(groups, {"model.tie_embeddings=true", "optimizer.groups={match: lm_head.*}"}),
              StartsWith("optimizer.groups[0].match chooses no parameter\n"));
}

}  // namespace
}  // namespace ddprun
