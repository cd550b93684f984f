// Training with model.recompute is training without it, bit for bit: in every precision, with both
// kernels, with accumulation, on ranks whose strategies hear of each gradient once.
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ddprun/experiments/training/trainer.h"
#include "ddprun/experiments/training/training.h"
#include "ddprun/proof/proof.h"
#include "support/experiments.h"
#include "support/plugin_registry.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

using test::Listener;
using test::registry;

struct Setting {
  std::string precision;
  ConfigNode options = {};
  KernelSet kernels = KernelSet::reference;
  std::string attention = "eager";
};

ConfigNode delayed() { return parse_yaml("{name: fp8, scaling: delayed, history: 4}", "test"); }

/// What runs on a CPU.
std::vector<Setting> settings() {
  return {{"fp32"},
          {"fp32", {}, KernelSet::fused},
          {"bf16_mixed"},
          {"bf16_mixed", {}, KernelSet::fused},
          {"bf16_mixed", {}, KernelSet::fused, "flash"},
          {"bf16_mixed", {}, KernelSet::reference, "sdpa"},
          {"bf16_true"},
          {"bf16_pure"},
          {"fp16_mixed"},
          {"fp8"},
          {"fp8", delayed()}};
}

Experiment experiment_of(const Setting& setting, std::int64_t accumulate) {
  Experiment experiment = test::small_experiment(1);
  training(experiment).model.layers = 4;
  training(experiment).model.kernels = setting.kernels;
  training(experiment).train.accumulate = accumulate;
  experiment.plugin(PluginKind::precision).name = setting.precision;
  experiment.plugin(PluginKind::precision).options = setting.options;
  experiment.plugin(PluginKind::attention).name = setting.attention;
  return experiment;
}

struct Outcome {
  std::vector<at::Tensor> gradients;  ///< of each step, flat
  at::Tensor parameters;              ///< after the last, flat
  std::vector<double> losses;
  std::vector<int> order;  ///< of all gradients in all steps
};

Outcome train(Experiment experiment, const RecomputeConfig& recompute) {
  training(experiment).model.recompute = recompute;
  return test::of_ranks(1, [&](ProcessGroup& group) {
    Outcome outcome;
    Listener listener;
    Trainer trainer(experiment, test::plugins_with(listener, registry(), experiment), group);
    for (int step = 0; step < 2; ++step) {
      const Sample sample =
          trainer.step(step, [&] { outcome.gradients.push_back(trainer.gradients()); });
      outcome.losses.push_back(sample[training().loss]);
    }
    const FlatBuffers& buffers = trainer.data_parallel().buffers();
    outcome.parameters = buffers.parameters(buffers.all()).clone();
    outcome.order = listener.order;
    return outcome;
  })[0];
}

TEST(RecomputeTraining, EqualsTrainingWithoutItInEveryPrecision) {
  for (const Setting& setting : settings()) {
    for (const std::int64_t accumulate : {1, 2}) {
      const Experiment experiment = experiment_of(setting, accumulate);
      const Outcome expected = train(experiment, {});
      for (const RecomputeConfig& form :
           {RecomputeConfig{.form = RecomputeForm::every_block}, RecomputeConfig{.groups = 2},
            RecomputeConfig{.every = 1, .keep_last = 1},
            RecomputeConfig{.form = RecomputeForm::recursive}}) {
        SCOPED_TRACE(setting.precision + " " + name_of(setting.kernels) + " " + setting.attention +
                     " x " + std::to_string(accumulate) + " " + to_string(form) +
                     (setting.options.map.empty() ? "" : " with options"));
        const Outcome got = train(experiment, form);
        EXPECT_EQ(got.losses, expected.losses);
        if (setting.kernels == KernelSet::reference) {
          EXPECT_EQ(got.order, expected.order);
        }
        EXPECT_TRUE(std::is_permutation(got.order.begin(), got.order.end(), expected.order.begin(),
                                        expected.order.end()));
        for (std::size_t step = 0; step < expected.gradients.size(); ++step) {
          EXPECT_TRUE(at::equal(got.gradients[step], expected.gradients[step])) << "step " << step;
        }
        EXPECT_TRUE(at::equal(got.parameters, expected.parameters));
      }
    }
  }
}

Experiment on_two_ranks(const std::string& strategy) {
  Experiment experiment = test::small_experiment(2);
  experiment.plugin(PluginKind::precision).name = "bf16_mixed";
  experiment.plugin(PluginKind::attention).name = "flash";
  experiment.plugin(PluginKind::strategy).name = strategy;
  training(experiment).train.accumulate = 2;
  return experiment;
}

/// Hashes of the parameters after some steps on two ranks.
std::vector<std::uint64_t> hashes(const std::string& strategy, bool overlap,
                                  const RecomputeConfig& recompute) {
  Experiment experiment = on_two_ranks(strategy);
  training(experiment).model.recompute = recompute;
  training(experiment).optimizer.overlap = overlap;
  return test::of_ranks(2, [&](ProcessGroup& group) {
    Trainer trainer(experiment, make_plugins(registry(), experiment), group);
    for (int step = 0; step < 4; ++step) {
      trainer.step(step);
      EXPECT_EQ(compare_with_plan(trainer.last_records(), trainer.planned()), "");
    }
    return hash_parameters(trainer.data_parallel());
  });
}

TEST(RecomputeTraining, EveryStrategyExchangesWhatItExchangesWithoutIt) {
  for (const PluginInfo& plugin : registry().list()) {
    if (plugin.kind != PluginKind::strategy) continue;
    SCOPED_TRACE(plugin.name);
    const Experiment experiment = on_two_ranks(plugin.name);
    const auto strategy = make_strategy(registry(), experiment.plugin(PluginKind::strategy));
    const auto precision = make_precision(registry(), experiment.plugin(PluginKind::precision));
    const auto runs_with = [&](const RecomputeConfig& recompute) {
      Experiment with = experiment;
      training(with).model.recompute = recompute;
      return !strategy->unsupported(describe_run(with, *precision));
    };
    if (!runs_with({})) continue;
    const auto expected = hashes(plugin.name, false, {});
    const RecomputeConfig every_block = {.form = RecomputeForm::every_block};
    EXPECT_TRUE(runs_with(every_block));
    EXPECT_EQ(hashes(plugin.name, false, every_block), expected);
    const RecomputeConfig recursive = {.form = RecomputeForm::recursive};
    if (runs_with(recursive)) {
      EXPECT_EQ(hashes(plugin.name, false, recursive), expected);
    }
    const std::vector<NamedTensor> parameters = {{"w", at::ones({1})}};
    const ParameterLayout layout(parameters, {}, KernelSet::reference, 1);
    if (!strategy->plan(layout, 0).reports_ranges) continue;
    const RecomputeConfig group =
        runs_with({.groups = 1}) ? RecomputeConfig{.groups = 1} : every_block;
    EXPECT_EQ(hashes(plugin.name, true, group), hashes(plugin.name, true, {}));
  }
}

/// Fails where the precision is switched on for a second time.
class FailsAgain final : public Precision {
 public:
  std::unique_ptr<Guard> forward_guard() override {
    if (++calls == 2) throw std::runtime_error("the second time");
    return std::make_unique<Guard>();
  }
  int calls = 0;
};

TEST(RecomputeTraining, AFailureInBackwardHasItsOwnWords) {
  Experiment experiment = experiment_of({"fp32"}, 1);
  training(experiment).model.recompute = {.groups = 1};
  test::run_ranks(1, [&](ProcessGroup& group) {
    Listener listener;
    FailsAgain precision;
    RunPlugins plugins = test::plugins_with(listener, registry(), experiment);
    plugins.precision = std::shared_ptr<Precision>(std::shared_ptr<void>(), &precision);
    Trainer trainer(experiment, plugins, group);
    try {
      trainer.step(0);
      ADD_FAILURE() << "the precision was not switched on in backward";
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "the second time");
    }
  });
}

}  // namespace
}  // namespace ddprun
