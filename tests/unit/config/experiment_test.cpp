// Experiment files: defaults, presets, sweeps, launches, round trip, the text of each error.
#include "ddprun/config/experiment.h"

#include <filesystem>

#include "ddprun/experiments/training/run_plugins.h"
#include "ddprun/plugin/run_description.h"
#include "support/experiment_fixture.h"
#include "support/matchers.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using test::message_of;

TEST_F(ExperimentTest, DefaultsOfEverySection) {
  const Experiment e = load_one(kLeast);
  EXPECT_EQ(e.name, "run");
  EXPECT_EQ(e.label, "");
  EXPECT_EQ(training(e).model.preset, "tiny");
  EXPECT_EQ(training(e).model.d_model, model_preset("tiny").d_model);
  EXPECT_EQ(training(e).data.source, DataKind::random);
  EXPECT_EQ(e.world.size, 1);
  EXPECT_EQ(e.world.comm.backend, BackendKind::automatic);
  EXPECT_EQ(e.plugin(PluginKind::strategy).name, "s");
  EXPECT_EQ(e.plugin(PluginKind::precision).kind, PluginKind::precision);
  EXPECT_EQ(training(e).optimizer.name, OptimizerKind::adamw);
  EXPECT_EQ(training(e).train.steps, 10);
  EXPECT_EQ(e.output_dir, "results");
}

TEST_F(ExperimentTest, ReadsEverySection) {
  const Experiment e = load_one(
      "name: my-run_1.0\n"
      "model: {preset: small, layers: 2}\n"
      "data: {source: tokens, path: [a.bin, /b.bin], token_type: uint32}\n"
      "world: {size: 2, threads_per_rank: 3, pin: false, backend: gloo, gloo_threads: 4, "
      "interface: "
      "lo, timeout_s: 5}\n"
      "strategy: {name: mine, path: lib/libmine.so, bucket_mb: 5}\n"
      "precision: p\n"
      "attention: {name: a}\n"
      "optimizer: {name: sgd, lr: 0.1, momentum: 0.9, schedule: {name: cosine, min_lr: 0.01}}\n"
      "train: {batch_per_rank: 6, accumulate: 3, seed: 7}\n"
      "output: {dir: out}\n"
      "plugin_path: plugins\n");
  EXPECT_EQ(e.name, "my-run_1.0");
  EXPECT_EQ(training(e).model.layers, 2);
  EXPECT_EQ(training(e).model.d_model, 768);
  EXPECT_THAT(training(e).data.path, ElementsAre((folder_ / "a.bin").string(), "/b.bin"));
  EXPECT_EQ(e.world.comm.gloo_threads, 4);
  EXPECT_EQ(e.world.comm.timeout_s, 5);
  EXPECT_EQ(e.plugin(PluginKind::strategy).path, (folder_ / "lib/libmine.so").string());
  EXPECT_EQ(e.plugin(PluginKind::strategy).options.find("bucket_mb")->scalar, "5");
  EXPECT_EQ(training(e).optimizer.schedule.min_lr, 0.01);
  EXPECT_EQ(e.output_dir, "out");
  EXPECT_THAT(e.plugin_path, ElementsAre((folder_ / "plugins").string()));

  EXPECT_EQ(batch_per_rank(e), 6);
  EXPECT_EQ(global_batch(e), 12);
  EXPECT_EQ(micro_batch(e), 2);
  class : public Precision {
  } precision;
  const RunDescription run = describe_run(e, precision);
  EXPECT_EQ(run.world_size, 2);
  EXPECT_EQ(run.micro_batch, 2);
  EXPECT_EQ(run.accumulate, 3);
  EXPECT_EQ(run.optimizer.name, OptimizerKind::sgd);
  EXPECT_EQ(run.optimizer.momentum, 0.9);
  EXPECT_EQ(run.optimizer.schedule.min_lr, 0.01);
  EXPECT_EQ(run.context_length, 128);
  EXPECT_EQ(run.head_dim, 64);
  EXPECT_EQ(run.d_ff, training(e).model.d_ff);
  EXPECT_EQ(run.kernels, KernelSet::fused);
}

TEST_F(ExperimentTest, PathsDoNotDependOnTheCurrentDirectory) {
  std::ofstream(file_) << kLeast << "data: {source: text, path: ../texts}\n";
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  const Experiment e = load_experiments("run.yaml", {}, experiment_kinds()).experiments.at(0);
  fs::current_path(before);
  EXPECT_THAT(training(e).data.path, ElementsAre((folder_.parent_path() / "texts").string()));
}

TEST_F(ExperimentTest, SweepsAndOverrides) {
  const ExperimentFile file =
      load(kLeast + "sweep:\n  strategy: [x, {name: y, k: 1}]\n  world.size: [1, 2]\n",
           {"train.steps=3", "sweep.world.size=[2, 4]"});
  ASSERT_EQ(file.experiments.size(), 4u);
  EXPECT_EQ(file.name, "run");
  EXPECT_EQ(file.experiments[3].label, "strategy=y(k=1), world.size=4");
  EXPECT_EQ(file.experiments[3].plugin(PluginKind::strategy).name, "y");
  EXPECT_EQ(file.experiments[3].world.size, 4);
  EXPECT_EQ(training(file.experiments[0]).train.steps, 3);
}

TEST_F(ExperimentTest, ALaunchSetsTheWorldSize) {
  EXPECT_EQ(load_one(kLeast, {}, 4).world.size, 4);
  EXPECT_EQ(load_one(kLeast + "world: {size: 4}\n", {}, 4).world.size, 4);
  EXPECT_EQ(error(kLeast + "world: {size: 2}\n", {}, 4),
            message_of("world.size contradicts the launch that this process belongs to",
                       "run.yaml:5:9", "2", "4, the ranks that were launched",
                       "remove world.size, or launch that many ranks"));
}

TEST_F(ExperimentTest, TheResolvedYamlLoadsToTheSame) {
  Experiment e = load_one(
      "name: \"1.5\"\n"
      "model: {preset: medium, rope_theta: 5e5}\n"
      "data: {source: text, path: \"a: b, c\"}\n"
      "world: {size: 2, timeout_s: 0.1}\n"
      "strategy: {name: s, path: libs.so, text: \"5\", list: [1, x], map: {k: v}}\n"
      "precision: p\n"
      "attention: a\n"
      "optimizer: {lr: 3.3e-4, betas: [0.8, 0.999], schedule: {name: cosine, warmup_steps: 3}}\n"
      "train: {global_batch: 12, accumulate: 2}\n");
  const std::string resolved = to_yaml(resolve(e));
  const Experiment back = load_one(resolved);
  EXPECT_EQ(to_yaml(resolve(back)), resolved);
  EXPECT_EQ(back.name, "1.5");
  EXPECT_EQ(training(back).model.d_ff, training(e).model.d_ff);
  EXPECT_EQ(training(back).model.rope_theta, 5e5);
  EXPECT_EQ(training(back).data.path, training(e).data.path);
  EXPECT_EQ(back.plugin(PluginKind::strategy).path, e.plugin(PluginKind::strategy).path);
  EXPECT_TRUE(back.plugin(PluginKind::strategy).options.find("text")->quoted);
  EXPECT_EQ(compact(*back.plugin(PluginKind::strategy).options.find("list")), "[1, x]");
  EXPECT_EQ(compact(*back.plugin(PluginKind::strategy).options.find("map")), "{k: v}");
  EXPECT_EQ(training(back).optimizer.betas, training(e).optimizer.betas);
  EXPECT_EQ(training(back).optimizer.schedule.warmup_steps, 3);
  EXPECT_EQ(training(back).train.global_batch, 12);
  EXPECT_EQ(global_batch(back), global_batch(e));

  // Written options of the plugin take the place of those that were read.
  e.plugin(PluginKind::strategy).options = parse_yaml("{bucket_mb: 25}", "");
  EXPECT_THAT(to_yaml(resolve(e)),
              HasSubstr("strategy:\n  name: s\n  path: " + e.plugin(PluginKind::strategy).path +
                        "\n  bucket_mb: 25\nprecision:\n  name: p\n"));
}

TEST_F(ExperimentTest, TheDocumentMustBeAMapping) {
  EXPECT_EQ(error("hello\n", {"a=b"}),
            message_of("an experiment must be a mapping", "run.yaml:1:1", "hello",
                       "key: value lines", "configs/ has examples"));
}

TEST_F(ExperimentTest, UnknownKeys) {
  EXPECT_EQ(
      error(kLeast + "wordl: {size: 2}\n"),
      message_of("unknown key 'wordl'", "run.yaml:5:1", "{size: 2}",
                 "experiment, sweep, report, strategy, precision, attention, name, plugin_path, "
                 "model, data, world, optimizer, train, execution, profile, output",
                 "did you mean 'world'?"));
  EXPECT_EQ(
      error(kLeast, {"optimizer.schedule.warmup=5"}),
      message_of("unknown key 'warmup' in optimizer.schedule", "--set optimizer.schedule.warmup=5",
                 "5", "name, warmup_steps, min_lr", "remove it"));
}

TEST_F(ExperimentTest, AnErrorInASweepNamesItsPoint) {
  EXPECT_EQ(error("strategy: s\nprecision: p\nattention: a\ntrain: {global_batch: 8}\n"
                  "sweep: {world.size: [2, 3]}\n"),
            message_of("train.global_batch 8 is not divisible by 3 ranks x 1 accumulation",
                       "run.yaml:4:9, in the sweep at world.size=3", "8", "a multiple of 3",
                       "the nearest are 6 and 9"));
}

TEST_F(ExperimentTest, PluginsMustBeChosen) {
  EXPECT_EQ(error("precision: p\nattention: a\ntrain: {global_batch: 8}\n"),
            message_of("strategy is missing", "run.yaml", "no key `strategy`",
                       "strategy: NAME, or strategy: {name: NAME, ...its options}",
                       "`ddprun list` shows what is installed"));
  EXPECT_EQ(error("strategy: s\nprecision: {bits: 5}\nattention: a\n"),
            message_of("precision has no name", "run.yaml:2:12", "{bits: 5}",
                       "precision: NAME, or precision: {name: NAME, ...its options}",
                       "`ddprun list` shows what is installed"));
  EXPECT_EQ(error("strategy: {name: [s]}\nprecision: p\nattention: a\n"),
            message_of("'name' in strategy has the wrong type", "run.yaml:1:18", "the list [s]",
                       "text (name of a plugin; `ddprun list` shows them)",
                       "`ddprun describe NAME` shows the keys of a section or plugin"));
}

TEST_F(ExperimentTest, TheNameMustServeAsAFolder) {
  EXPECT_EQ(error(kLeast + "name: a/b\n"),
            message_of("the experiment's name cannot name a folder", "run.yaml:5:1", "a/b",
                       "at most 255 letters, digits, '.', '_' and '-', not starting with "
                       "'.', and not \"latest\"",
                       "results stand in a folder of this name"));
  file_ = folder_ / "my run.yaml";
  EXPECT_THAT(error(kLeast), HasSubstr("got: my run\n"));
  EXPECT_THAT(error(kLeast), EndsWith("hint: it is the file's name; add name: to the file"));
  file_ = folder_ / "run.yaml";
  const std::string longest(255, 'a');
  EXPECT_EQ(load(kLeast + "name: " + longest + "\n").name, longest);
  EXPECT_THAT(error(kLeast + "name: a" + longest + "\n"), HasSubstr("at most 255 letters"));
  EXPECT_EQ(error(kLeast + "sweep: {name: [a, b]}\n"),
            message_of("the name cannot be swept", "run.yaml:5:9", "b",
                       "one name for all points of the sweep", "labels tell the points apart"));
}

TEST_F(ExperimentTest, PointsShareAFolderAndHaveLabelsOfTheirOwn) {
  EXPECT_EQ(
      error(kLeast + "sweep: {output.dir: [a, b]}\n"),
      message_of("output.dir cannot be swept", "run.yaml:5:9", "b",
                 "one folder for all points of the sweep", "the rows of a sweep are one result"));
  EXPECT_EQ(error(kLeast + "sweep: {world.size: [1, 2, 1]}\n"),
            message_of("two points of the sweep have one label", "run.yaml:5:1", "world.size=1",
                       "labels that tell the points apart",
                       "report.repeats runs each point several times"));
  EXPECT_EQ(error(kLeast + "sweep: {world.timeout_s: [1, 2, 1.0]}\n"),
            message_of("two points of the sweep say the same", "run.yaml:5:1",
                       "world.timeout_s=1 and world.timeout_s=1.0", "points that differ",
                       "report.repeats runs each point several times"));
}

}  // namespace
}  // namespace ddprun
