// What an experiment must satisfy beyond the limits of each single option: the text of each
// refusal.
#include "ddprun/config/experiment_check.h"

#include "ddprun/experiments/training/training_config.h"
#include "support/experiment_fixture.h"
#include "support/matchers.h"

namespace ddprun {
namespace {

using test::message_of;

class ExperimentCheck : public ExperimentTest {
 protected:
  /// The first line of the error.
  std::string what(const std::string& text) {
    const std::string message = error(text);
    return message.substr(0, message.find('\n'));
  }
};

TEST_F(ExperimentCheck, RanksShareAGpuAndNothingElse) {
  EXPECT_THAT(error(kLeast + "world: {emulate_ranks_on_one_gpu: true}\n"),
              StartsWith("world.emulate_ranks_on_one_gpu needs a GPU\n"
                         "  where: run.yaml:5:9\n"));
}

TEST_F(ExperimentCheck, TheBackendIsOfTheDevice) {
  EXPECT_THAT(error(kLeast, {"world.device=cuda", "world.backend=shm"}),
              StartsWith("world.backend shm joins ranks on the CPU\n"));
  EXPECT_THAT(error(kLeast, {"world.backend=nccl"}),
              StartsWith("world.backend nccl joins ranks on GPUs\n"));
}

TEST_F(ExperimentCheck, HeadsMustFit) {
  EXPECT_EQ(
      error(kLeast + "model: {d_model: 256, heads: 7}\n"),
      message_of("model.heads does not divide model.d_model", "run.yaml:5:23",
                 "d_model 256, heads 7", "d_model a multiple of heads", "change one of the two"));
  EXPECT_EQ(error(kLeast + "model: {d_model: 36, heads: 4}\n"),
            message_of("the dimension of a head must be even: RoPE rotates pairs", "run.yaml:5:22",
                       "d_model 36, heads 4: 9 a head", "d_model / heads even",
                       "change d_model or heads"));
}

TEST_F(ExperimentCheck, ATimeBetweenCheckpointsHasItsOwnKey) {
  EXPECT_THAT(
      error(kLeast, {"train.checkpoint={every: 10min, path: saved}"}),
      AllOf(HasSubstr("every"), HasSubstr("10min"), HasSubstr("`minutes` is by the clock")));
}

TEST_F(ExperimentCheck, RecomputationFitsTheModelAndTheStep) {
  const std::string more = kLeast + "model: {layers: 2, recompute: {groups: 3}}\n";
  EXPECT_EQ(error(more),
            message_of("the model has 2 blocks, too few for 3 groups", "run.yaml:5:20",
                       "{groups: 3}", "groups 1 to 2", "lower groups, or raise model.layers"));
  EXPECT_THAT(error(more, {"model.layers=3", "train.measure=forward"}),
              StartsWith("model.recompute has no effect with train.measure forward\n"));
  EXPECT_THAT(error(more, {"model.layers=3", "execution.mode=cuda_graph"}),
              StartsWith("model.recompute cannot run with execution.mode cuda_graph\n"
                         "  where: run.yaml:5:20\n"));
}

TEST_F(ExperimentCheck, RecomputationIsSweptAndWritten) {
  const ExperimentFile file =
      load(kLeast +
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
            message_of("train must give the batch exactly once", "run.yaml:4:1",
                       "global_batch 8 and batch_per_rank 4",
                       "global_batch (over all ranks) or batch_per_rank", "remove one of them"));
  EXPECT_EQ(error(plugins), message_of("train must give the batch exactly once", "run.yaml:1:1",
                                       "neither global_batch nor batch_per_rank",
                                       "global_batch (over all ranks) or batch_per_rank",
                                       "train: {global_batch: 8}"));
}

TEST_F(ExperimentCheck, TheBatchMustDivide) {
  const std::string plugins = "strategy: s\nprecision: p\nattention: a\nworld: {size: 4}\n";
  EXPECT_EQ(error(plugins + "train: {global_batch: 10}\n"),
            message_of("train.global_batch 10 is not divisible by 4 ranks x 1 accumulation",
                       "run.yaml:5:9", "10", "a multiple of 4", "the nearest are 8 and 12"));
  EXPECT_EQ(error(plugins + "train: {batch_per_rank: 2, accumulate: 3}\n"),
            message_of("train.batch_per_rank 2 is not divisible by 3 accumulation", "run.yaml:5:9",
                       "2", "a multiple of 3", "the nearest is 3"));
}

TEST_F(ExperimentCheck, TheScheduleMustFitTheRun) {
  EXPECT_EQ(error(kLeast + "optimizer:\n  schedule: {warmup_steps: 16}\n"),
            message_of("the learning rate would never finish its warm-up", "run.yaml:6:14",
                       "16 warm-up steps of the schedule",
                       "at most the 15 steps of the run (train.warmup_steps 5 + train.steps 10)",
                       "lower it, or train longer"));
  EXPECT_EQ(error(kLeast + "optimizer: {lr: 0.1, schedule: {name: cosine, min_lr: 1}}\n"),
            message_of("optimizer.schedule.min_lr is above optimizer.lr", "run.yaml:5:47", "1",
                       "at most 0.1", "lr is the schedule's highest rate"));
}

TEST_F(ExperimentCheck, OptionsWithoutEffectAreRefused) {
  EXPECT_EQ(
      error(kLeast + "optimizer: {momentum: 0.9}\n"),
      message_of("optimizer.momentum has no effect with optimizer.name adamw", "run.yaml:5:13",
                 "0.9", "no optimizer.momentum", "remove it, or change what it depends on"));
  for (const auto& [line, option, with] :
       {std::tuple("optimizer: {name: sgd, betas: [0.8, 0.9]}", "optimizer.betas",
                   "optimizer.name sgd"),
        {"optimizer: {name: sgd, eps: 1}", "optimizer.eps", "optimizer.name sgd"},
        {"optimizer: {schedule: {min_lr: 1e-5}}", "optimizer.schedule.min_lr",
         "optimizer.schedule.name constant"},
        {"data: {path: a.txt}", "data.path", "data.source random"},
        {"data: {order: shuffled}", "data.order", "data.source random"},
        {"data: {order: sequential}", "data.order", "data.source random"},
        {"data: {source: text, path: a, token_type: uint32}", "data.token_type",
         "data.source text"}}) {
    EXPECT_EQ(what(kLeast + line + "\n"), std::string(option) + " has no effect with " + with);
  }
  for (const char* option : {"sample.prompt=x", "sample.tokens=9", "sample.temperature=0.5",
                             "eval.batches=9", "checkpoint.path=saved"}) {
    EXPECT_THAT(error(kLeast, {std::string("train.") + option}), HasSubstr(" has no effect with "))
        << option;
  }
}

TEST_F(ExperimentCheck, AStepWithoutAnUpdateHasNoOptimizer) {
  const std::string least = "strategy: s\nprecision: p\nattention: a\n";
  const std::string backward = least + "train: {global_batch: 8, measure: forward_backward}\n";
  EXPECT_EQ(error(backward + "world: {size: 2}\n"), "no error");
  EXPECT_EQ(error(backward + "optimizer: {lr: 1e-3, betas: [0.9, 0.95]}\n"), "no error");
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
        what(backward + "optimizer: {" + value + "}\n"),
        "optimizer." + std::string(key) + " has no effect with train.measure forward_backward");
  }
  EXPECT_EQ(error(least + "world: {size: 2}\ntrain: {global_batch: 8, measure: forward}\n"),
            message_of("train.measure forward has no gradients to exchange between ranks",
                       "run.yaml:5:26", "world.size 2", "world.size 1",
                       "or train.measure forward_backward, which exchanges them"));
}

TEST_F(ExperimentCheck, OverlapCannotClip) {
  EXPECT_EQ(
      error(kLeast + "optimizer: {clip_norm: 1, overlap: true}\n"),
      message_of(
          "optimizer.overlap cannot run with optimizer.clip_norm", "run.yaml:5:27", "clip_norm 1",
          "clip_norm 0",
          "clipping needs the norm of all gradients before the first update: remove one of them"));
}

TEST_F(ExperimentCheck, GraphsNeedAGpuAndWarmUp) {
  EXPECT_EQ(error(kLeast + "execution: {mode: cuda_graph}\n"),
            message_of("execution.mode cuda_graph is of GPUs", "run.yaml:5:13", "world.device cpu",
                       "world.device cuda", "set `mode: eager` under `execution:`"));
  EXPECT_THAT(error("{strategy: s, precision: p, attention: a, model: {kernels: reference},\n"
                    "world: {device: cuda}, execution: {mode: cuda_graph},\n"
                    "train: {global_batch: 4, warmup_steps: 2}}\n"),
              HasSubstr("  got: 2\n  expected: at least 3"));
}

TEST_F(ExperimentCheck, OptionsOfGlooNeedGloo) {
  EXPECT_EQ(
      error(kLeast + "world: {gloo_threads: 4}\n"),
      message_of("world.gloo_threads is an option of gloo", "run.yaml:5:9", "world.backend auto",
                 "world.backend gloo or hierarchical", "add one of them, or remove it"));
  EXPECT_THAT(error(kLeast + "world: {backend: shm, interface: lo}\n"),
              StartsWith("world.interface is an option of gloo\n"));
}

TEST_F(ExperimentCheck, OptimizerAndDataAreComplete) {
  EXPECT_EQ(error(kLeast + "optimizer: {betas: 0.9}\n"),
            message_of("optimizer.betas must hold two numbers", "run.yaml:5:13", "[0.9]",
                       "two numbers", "write both, as in [0.9, 0.95]"));
  EXPECT_EQ(error(kLeast + "data: {source: text}\n"),
            message_of("data.source text needs data.path", "run.yaml:5:8", "no path",
                       "a file or folder, or a list of them", "add `path:` under `data:`"));
  EXPECT_EQ(error(kLeast + "data: {source: text, path: a}\nmodel: {vocab_size: 128}\n"),
            message_of("text is read as bytes, which need a vocabulary of 256", "run.yaml:6:9",
                       "model.vocab_size 128", ">= 256", "raise model.vocab_size"));
}

}  // namespace
}  // namespace ddprun
