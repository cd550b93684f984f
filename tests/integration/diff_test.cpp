// ddprun diff from outside: experiments that are alike, and the place where one parts.
#include <cmath>

#include "support/ddprun_command.h"

namespace ddprun::test {
namespace {

const std::string kPlanted = DDPRUN_BUILD_DIR "/tests/plugins/planted";

/// tiny_experiment() as right.yaml, and as wrong.yaml with that value instead of `old`. They part.
CommandResult diff_planted(const TemporaryFolder& folder, const std::string& old,
                           const std::string& now) {
  folder.write("right.yaml", tiny_experiment());
  folder.write("wrong.yaml", replaced(tiny_experiment(), old, now));
  return must_end(3, folder, {"diff", "right.yaml", "wrong.yaml", "--plugin-path", kPlanted});
}

json row_of(const TemporaryFolder& folder, const std::string& name) {
  return json::parse(read_file(only_result(folder, name) / "diff.json")).at("rows").at(0);
}

TEST(Diff, StrategiesOfOneExperimentAreEqual) {
  TemporaryFolder folder("all.yaml",
                         tiny_experiment("sweep: {strategy: [flat, zero1, zero2, fsdp]}\n"));
  EXPECT_THAT(must_run(folder, {"diff", "all.yaml"}).out,
              AllOf(HasSubstr("strategy=fsdp equals strategy=flat up to rounding for 4 steps"),
                    HasSubstr("update equal bit for bit"), Not(HasSubstr("parts"))));
  const auto folder_of_result = only_result(folder, "all");
  const json result = json::parse(read_file(folder_of_result / "diff.json"));
  ASSERT_EQ(result.at("rows").size(), 3U);
  for (const json& row : result.at("rows")) {
    ASSERT_EQ(row.at("steps").size(), 4U);
    std::map<std::string, int> count;
    for (const json& each : row.at("steps")[3].at("differences")) {
      ++count[each.at("phase").get<std::string>()];
      EXPECT_TRUE(std::isfinite(each.at("lead").get<double>())) << each;
      EXPECT_GT(each.at("size").get<double>(), 0) << each;
    }
    EXPECT_EQ(count.at("forward"), 3) << "two outputs and the loss";
    EXPECT_EQ(count.at("backward"), 12);
    EXPECT_EQ(count.at("update"), 12);
  }
  EXPECT_FALSE(std::filesystem::exists(folder_of_result / "records")) << "what a step needs stays";
}

TEST(Diff, WhatIsDoneStaysWhenItIsInterrupted) {
  TemporaryFolder folder(
      "all.yaml",
      tiny_experiment("sweep: {strategy: [flat, naive, {name: slow, sleep_ms: 60000}]}\n"));
  DdprunProcess process(
      folder, {"diff", "all.yaml", "--plugin-path", DDPRUN_BUILD_DIR "/tests/plugins/slow"});
  ASSERT_TRUE(process.says("largest:")) << process.err();
  kill(process.pid(), SIGINT);
  EXPECT_EQ(process.wait(), 128 + SIGINT) << process.out() << process.err();
  EXPECT_EQ(row_of(folder, "all").at("name"), "strategy=naive");
  EXPECT_THAT(process.err(), HasSubstr("interrupted (signal 2): what was done is in results/all/"));
}

TEST(Diff, InterruptedBeforeItComparedItSaysSo) {
  TemporaryFolder folder("all.yaml", tiny_experiment("sweep: {strategy: [flat, naive]}\n"));
  DdprunProcess process(folder, {"diff", "all.yaml", "--steps", "1000000"});
  ASSERT_TRUE(eventually(30, [&] { return process.ranks().size() == 2; })) << process.err();
  kill(process.pid(), SIGINT);
  EXPECT_EQ(process.wait(), 128 + SIGINT) << process.out() << process.err();
  EXPECT_THAT(process.err(), HasSubstr("interrupted (signal 2): no result of all was written\n"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "results"));
}

/// More ranks, micro-batches, another attention, other kernels: sums in another order.
TEST(Diff, TheWayOfComputingTheSameIsRounding) {
  TemporaryFolder folder;
  const std::string text = replaced(tiny_experiment(), "batch_per_rank: 2", "global_batch: 4");
  folder.write("many.yaml", replaced(replaced(text, "{size: 2}", "{size: 4}"), "eager", "flash"));
  const std::string one = replaced(text, "{size: 2}", "{size: 1}");
  const std::string slow = "heads: 2, kernels: reference, recompute: every_block";
  folder.write("one.yaml", replaced(replaced(one, "heads: 2", slow), "global_batch: 4",
                                    "global_batch: 4, accumulate: 2"));
  folder.write("sharded.yaml",
               replaced(replaced(text, "strategy: flat", "strategy: zero1"), "eager", "sdpa"));
  must_run(folder, {"diff", "many.yaml", "one.yaml", "sharded.yaml"});
  const json row = row_of(folder, "many");
  for (const char* phase : {"forward", "backward"}) {
    const double ulp = row.at("phases").at(phase).at("largest").at("ulp");
    EXPECT_GT(ulp, 0) << phase << ": another order of sums, and not one difference";
    EXPECT_LT(ulp, 64) << phase;
  }
  must_end(3, folder, {"diff", "many.yaml", "one.yaml", "--ulp", "0"});
}

TEST(Diff, NamesWhereTheyPart) {
  for (const auto& [old, now, place] :
       {std::tuple("flat", "{name: planted, fault: halve, rank: 1, first: 3, last: 3}",
                   "step 3, backward, unit head: the gradient of lm_head.weight differs by "),
        {"flat", "{name: planted, fault: half_an_update, first: 2, last: 2}",
         "step 2, update, unit "},
        {"eager", "{name: planted, fault: not_causal}",
         "step 0, forward, unit layers.0: the output of unit layers.0 differs by "}}) {
    TemporaryFolder folder;
    EXPECT_THAT(diff_planted(folder, old, now).out,
                HasSubstr("wrong parts from right: " + std::string(place)));
    const json row = row_of(folder, "right");
    EXPECT_FALSE(row.at("passed").get<bool>());
    EXPECT_EQ("step " + row.at("parts").at("step").dump(), std::string(place).substr(0, 6));
  }
}

/// Each step begins with the weights of the first: its gradients are wrong, and the next forward
/// is right again.
TEST(Diff, LossyGradientsPartAndTheNextForwardDoesNot) {
  TemporaryFolder folder;
  diff_planted(folder, "flat", "powersgd");
  const json row = row_of(folder, "right");
  EXPECT_EQ(row.at("parts").at("phase"), "backward");
  EXPECT_EQ(row.at("phases").at("forward").at("largest").at("ulp"), 0.0);
  EXPECT_EQ(row.at("phases").at("update").at("largest").at("ulp"), 0.0);
}

TEST(Diff, RefusesWhatCannotBeCompared) {
  TemporaryFolder folder("one.yaml", tiny_experiment());
  const auto refused = [&](std::vector<std::string> words, const std::string& why) {
    words.insert(words.begin(), "diff");
    EXPECT_THAT(refusal_of(folder, words), HasSubstr(why));
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "results"));
  };
  refused({"one.yaml"}, "there is nothing to compare with");
  const auto swept = [&](const std::string& sweep) {
    folder.write("two.yaml", tiny_experiment("sweep: {" + sweep + "}\n"));
    return std::vector<std::string>{"two.yaml"};
  };
  refused(swept("model.d_ff: [64, 128]"), "the two have no tensors that could be compared");
  refused(swept("train.seed: [0, 1]"), "got: train.seed 1");
  refused(swept("world.size: [2, 1]"), "got: train.global_batch 2");
  refused(swept("strategy: [zero1, zero2], optimizer.overlap: [false, true]"),
          "which updates both with the same gradients");
  refused(swept("world.size: [1], train.measure: [step, forward]"), "which looks at each step");
  refused({"one.yaml", "one.yaml", "--steps", "0"}, "--steps");
  folder.write(
      "two.yaml",
      "experiment: collectives\ncollectives: {bytes: 1000}\nworld: {size: 2, backend: gloo}\n");
  refused({"one.yaml", "two.yaml"}, "experiments of two kinds have no steps");
  refused({"two.yaml", "two.yaml"}, "has no steps that could be compared");
  refused({"one.yaml", "one.yaml", "--set", "strategy=local_sgd"}, "ranks go their own ways");
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "results")) << "half a result was left";
}

}  // namespace
}  // namespace ddprun::test
