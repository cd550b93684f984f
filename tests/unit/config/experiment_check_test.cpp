// What an experiment must satisfy beyond the limits of each single option: the text of each
// refusal.
#include "ddprun/config/experiment_check.h"

#include <gtest/gtest.h>

#include "ddprun/experiments/training/training_config.h"
#include "support/experiment_fixture.h"
#include "support/matchers.h"

namespace ddprun {
namespace {

class ExperimentCheck : public ExperimentTest {};

TEST_F(ExperimentCheck, RanksShareAGpuAndNothingElse) {
  EXPECT_THAT(error(std::string(kLeast) + "world: {emulate_ranks_on_one_gpu: true}\n"),
              StartsWith("world.emulate_ranks_on_one_gpu needs a GPU\n"
                         "  where: run.yaml:5:9\n"));
}

TEST_F(ExperimentCheck, HeadsMustFit) {
  EXPECT_EQ(error(std::string(kLeast) + "model: {d_model: 256, heads: 7}\n"),
            "model.heads does not divide model.d_model\n"
            "  where: run.yaml:5:23\n"
            "  got: d_model 256, heads 7\n"
            "  expected: d_model a multiple of heads\n"
            "  hint: change one of the two");
  EXPECT_EQ(error(std::string(kLeast) + "model: {d_model: 36, heads: 4}\n"),
            "the dimension of a head must be even: RoPE rotates pairs\n"
            "  where: run.yaml:5:22\n"
            "  got: d_model 36, heads 4: 9 a head\n"
            "  expected: d_model / heads even\n"
            "  hint: change d_model or heads");
}

TEST_F(ExperimentCheck, ATimeBetweenCheckpointsHasItsOwnKey) {
  EXPECT_THAT(
      error(kLeast, {"train.checkpoint={every: 10min, path: saved}"}),
      AllOf(HasSubstr("every"), HasSubstr("10min"), HasSubstr("`minutes` is by the clock")));
}

TEST_F(ExperimentCheck, RecomputationFitsTheModelAndTheStep) {
  const std::string more = std::string(kLeast) + "model: {layers: 2, recompute: {groups: 3}}\n";
  EXPECT_EQ(error(more),
            "the model has 2 blocks, too few for 3 groups\n"
            "  where: run.yaml:5:20\n"
            "  got: {groups: 3}\n"
            "  expected: groups 1 to 2\n"
            "  hint: lower groups, or raise model.layers");
  EXPECT_THAT(error(more, {"model.layers=3", "train.measure=forward"}),
              StartsWith("model.recompute has no effect with train.measure forward\n"));
  EXPECT_THAT(error(more, {"model.layers=3", "execution.mode=cuda_graph"}),
              StartsWith("model.recompute cannot run with execution.mode cuda_graph\n"
                         "  where: run.yaml:5:20\n"));
}

TEST_F(ExperimentCheck, RecomputationIsSweptAndWritten) {
  const ExperimentFile file =
      load(std::string(kLeast) +
           "sweep: {model.recompute: [none, every_block, {every: 2, keep_last: 1}, recursive]}\n"
           "report: {baseline: {model.recompute: every_block}}\n");
  std::vector<std::string> labels;
  for (const Experiment& experiment : file.experiments) {
    labels.push_back(experiment.label);
    const ConfigNode resolved = resolve(experiment);
    EXPECT_EQ("model.recompute=" + compact(*resolved.find("model")->find("recompute")),
              experiment.label);
  }
  EXPECT_THAT(labels,
              ElementsAre("model.recompute=none", "model.recompute=every_block",
                          "model.recompute={every: 2, keep_last: 1}", "model.recompute=recursive"));
  EXPECT_EQ(training(load_one(kLeast, {"model.recompute=every_block"})).model.recompute.form,
            RecomputeForm::every_block);
  EXPECT_EQ(training(load_one(kLeast, {"model.recompute.groups=2"})).model.recompute.groups, 2);
}

TEST_F(ExperimentCheck, TheBatchIsGivenOnce) {
  const std::string plugins = "strategy: s\nprecision: p\nattention: a\n";
  EXPECT_EQ(error(plugins + "train: {global_batch: 8, batch_per_rank: 4}\n"),
            "train must give the batch exactly once\n"
            "  where: run.yaml:4:1\n"
            "  got: global_batch 8 and batch_per_rank 4\n"
            "  expected: global_batch (over all ranks) or batch_per_rank\n"
            "  hint: remove one of them");
  EXPECT_EQ(error(plugins),
            "train must give the batch exactly once\n"
            "  where: run.yaml:1:1\n"
            "  got: neither global_batch nor batch_per_rank\n"
            "  expected: global_batch (over all ranks) or batch_per_rank\n"
            "  hint: train: {global_batch: 8}");
}

TEST_F(ExperimentCheck, TheBatchMustDivide) {
  const std::string plugins = "strategy: s\nprecision: p\nattention: a\nworld: {size: 4}\n";
  EXPECT_EQ(error(plugins + "train: {global_batch: 10}\n"),
            "train.global_batch 10 is not divisible by 4 ranks x 1 accumulation\n"
            "  where: run.yaml:5:9\n"
            "  got: 10\n"
            "  expected: a multiple of 4\n"
            "  hint: the nearest are 8 and 12");
  EXPECT_EQ(error(plugins + "train: {batch_per_rank: 2, accumulate: 3}\n"),
            "train.batch_per_rank 2 is not divisible by 3 accumulation\n"
            "  where: run.yaml:5:9\n"
            "  got: 2\n"
            "  expected: a multiple of 3\n"
            "  hint: the nearest is 3");
}

TEST_F(ExperimentCheck, TheScheduleMustFitTheRun) {
  EXPECT_EQ(error(std::string(kLeast) + "optimizer:\n  schedule: {warmup_steps: 16}\n"),
            "the learning rate would never finish its warm-up\n"
            "  where: run.yaml:6:14\n"
            "  got: 16 warm-up steps of the schedule\n"
            "  expected: at most the 15 steps of the run (train.warmup_steps 5 + train.steps 10)\n"
            "  hint: lower it, or train longer");
  EXPECT_EQ(
      error(std::string(kLeast) + "optimizer: {lr: 0.1, schedule: {name: cosine, min_lr: 1}}\n"),
      "optimizer.schedule.min_lr is above optimizer.lr\n"
      "  where: run.yaml:5:47\n"
      "  got: 1\n"
      "  expected: at most 0.1\n"
      "  hint: lr is the schedule's highest rate");
}

TEST_F(ExperimentCheck, OptionsWithoutEffectAreRefused) {
  EXPECT_EQ(error(std::string(kLeast) + "optimizer: {momentum: 0.9}\n"),
            "optimizer.momentum has no effect with optimizer.name adamw\n"
            "  where: run.yaml:5:13\n"
            "  got: a value that is not the default\n"
            "  expected: no optimizer.momentum\n"
            "  hint: remove it");
  const auto what = [&](const std::string& line) {
    const std::string message = error(kLeast + line + "\n");
    return message.substr(0, message.find('\n'));
  };
  EXPECT_EQ(what("optimizer: {name: sgd, betas: [0.8, 0.9]}"),
            "optimizer.betas has no effect with optimizer.name sgd");
  EXPECT_EQ(what("optimizer: {name: sgd, eps: 1}"),
            "optimizer.eps has no effect with optimizer.name sgd");
  EXPECT_EQ(what("optimizer: {schedule: {min_lr: 1e-5}}"),
            "optimizer.schedule.min_lr has no effect with optimizer.schedule.name constant");
  EXPECT_EQ(what("data: {path: a.txt}"), "data.path has no effect with data.source random");
  EXPECT_EQ(what("data: {order: shuffled}"), "data.order has no effect with data.source random");
  EXPECT_EQ(what("data: {order: sequential}"), "data.order has no effect with data.source random");
  EXPECT_EQ(what("data: {source: text, path: a, token_type: uint32}"),
            "data.token_type has no effect with data.source text");
}

TEST_F(ExperimentCheck, AStepWithoutAnUpdateHasNoOptimizer) {
  const std::string least = "strategy: s\nprecision: p\nattention: a\n";
  const auto what = [&](const std::string& line) {
    const std::string message =
        error(least + "train: {global_batch: 8, measure: forward_backward}\n" + line + "\n");
    return message.substr(0, message.find('\n'));
  };
  EXPECT_EQ(what("world: {size: 2}"), "no error");
  EXPECT_EQ(what("optimizer: {lr: 1e-3, betas: [0.9, 0.95]}"), "no error");
  for (const auto& [key, value] : {std::pair{"name", "name: sgd"},
                                   {"lr", "lr: 0.0010000000000000002"},  // the next double
                                   {"betas", "betas: [0.9, 0.99]"},
                                   {"eps", "eps: 1e-9"},
                                   {"weight_decay", "weight_decay: 0"},
                                   {"momentum", "momentum: 0.9"},
                                   {"clip_norm", "clip_norm: 1"},
                                   {"overlap", "overlap: true"},
                                   {"groups", "groups: {match: \"*.weight\"}"},
                                   {"schedule.name", "schedule: {name: cosine}"},
                                   {"schedule.warmup_steps", "schedule: {warmup_steps: 1}"},
                                   {"schedule.min_lr", "schedule: {min_lr: 1e-5}"}}) {
    EXPECT_EQ(
        what("optimizer: {" + std::string(value) + "}"),
        "optimizer." + std::string(key) + " has no effect with train.measure forward_backward");
  }
  EXPECT_EQ(error(least + "world: {size: 2}\ntrain: {global_batch: 8, measure: forward}\n"),
            "train.measure forward has no gradients to exchange between ranks\n"
            "  where: run.yaml:5:26\n"
            "  got: world.size 2\n"
            "  expected: world.size 1\n"
            "  hint: or train.measure forward_backward, which exchanges them");
}

TEST_F(ExperimentCheck, OverlapCannotClip) {
  EXPECT_EQ(
      error(std::string(kLeast) + "optimizer: {clip_norm: 1, overlap: true}\n"),
      "optimizer.overlap cannot run with optimizer.clip_norm\n"
      "  where: run.yaml:5:27\n"
      "  got: clip_norm 1\n"
      "  expected: clip_norm 0\n"
      "  hint: clipping needs the norm of all gradients before the first update: remove one of "
      "them");
}

TEST_F(ExperimentCheck, GraphsNeedAGpuAndWarmUp) {
  EXPECT_EQ(error(std::string(kLeast) + "execution: {mode: cuda_graph}\n"),
            "execution.mode cuda_graph is of GPUs\n"
            "  where: run.yaml:5:13\n"
            "  got: world.device cpu\n"
            "  expected: world.device cuda\n"
            "  hint: set `mode: eager` under `execution:`");
  EXPECT_THAT(error("{strategy: s, precision: p, attention: a, model: {kernels: reference},\n"
                    "world: {device: cuda}, execution: {mode: cuda_graph},\n"
                    "train: {global_batch: 4, warmup_steps: 2}}\n"),
              HasSubstr("  got: 2\n  expected: at least 3"));
}

TEST_F(ExperimentCheck, OptionsOfGlooNeedGloo) {
  EXPECT_EQ(error(std::string(kLeast) + "world: {gloo_threads: 4}\n"),
            "world.gloo_threads is an option of gloo\n"
            "  where: run.yaml:5:9\n"
            "  got: world.backend auto\n"
            "  expected: world.backend gloo or hierarchical\n"
            "  hint: add one of them, or remove it");
  EXPECT_THAT(error(std::string(kLeast) + "world: {backend: shm, interface: lo}\n"),
              StartsWith("world.interface is an option of gloo\n"));
}

TEST_F(ExperimentCheck, OptimizerAndDataAreComplete) {
  EXPECT_EQ(error(std::string(kLeast) + "optimizer: {betas: 0.9}\n"),
            "optimizer.betas must hold two numbers\n"
            "  where: run.yaml:5:13\n"
            "  got: [0.9]\n"
            "  expected: two numbers\n"
            "  hint: write both, as in [0.9, 0.95]");
  EXPECT_EQ(error(std::string(kLeast) + "data: {source: text}\n"),
            "data.source text needs data.path\n"
            "  where: run.yaml:5:8\n"
            "  got: no path\n"
            "  expected: a file or folder, or a list of them\n"
            "  hint: add `path:` under `data:`");
  EXPECT_EQ(
      error(std::string(kLeast) + "data: {source: text, path: a}\nmodel: {vocab_size: 128}\n"),
      "text is read as bytes, which need a vocabulary of 256\n"
      "  where: run.yaml:6:9\n"
      "  got: model.vocab_size 128\n"
      "  expected: >= 256\n"
      "  hint: raise model.vocab_size");
}

}  // namespace
}  // namespace ddprun
