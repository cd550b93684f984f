// The contract of strategies, precisions and attentions: any combination on 1, 2 and 4 ranks trains
// as one process does, or keeps what less its plan promises. Plugins are discovered, beside the
// build and in DDPRUN_PLUGIN_PATH: a new plugin is tested without an edit here.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "combinations.h"
#include "ddprun/base/choice.h"
#include "ddprun/experiments/training/plugin_proof.h"
#include "ddprun/experiments/training/trainer.h"
#include "ddprun/experiments/training/training.h"
#include "ddprun/parallel/whole_buffers.h"
#include "ddprun/proof/proof.h"
#include "ddprun/proof/update_proof.h"
#include "plugins_under_test.h"
#include "support/experiments.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

bool reports_ranges(const Experiment& experiment) {
  const std::vector<NamedTensor> parameters = {{"w", at::ones({1})}};
  const ParameterLayout layout(parameters, {}, KernelSet::reference, 1);
  return make_strategy(registry(), experiment.plugin(PluginKind::strategy))
      ->plan(layout, 0)
      .reports_ranges;
}

/// Those whose strategy can update parameters while gradients travel, and whose precision lets it.
std::vector<Combination> overlapping() {
  std::vector<Combination> all = combinations();
  std::erase_if(all, [](const Combination& one) {
    const Experiment experiment = experiment_of(one);
    return !reports_ranges(experiment) ||
           make_precision(registry(), experiment.plugin(PluginKind::precision))->loss_scaler() !=
               nullptr;
  });
  return all;
}

struct Outcome {
  at::Tensor gradients;   // flat, after the first step's synchronization
  at::Tensor parameters;  // flat, after the last step
  at::Tensor frozen;      // flat, likewise; undefined if there is none
  at::Tensor copy;        // of them, for the matrix products; undefined if there is none
  std::vector<double> losses;
  std::string off_plan;  // of the last step
  Agreement agreement = Agreement::exact;
  bool ranks_agree = true;      // after the last step
  Check integers;               // check_integer_gradients(), after that
  std::vector<Check> computed;  // of attention, of products by PyTorch's operators, of updates
};

/// Without padding, which depends on the number of ranks.
at::Tensor packed(const at::Tensor& flat, const ParameterLayout& layout) {
  std::vector<at::Tensor> parts;
  for (int index = 0; index < layout.count(); ++index) {
    parts.push_back(flat.narrow(0, layout.range(index).begin, layout.range(index).size()));
  }
  return at::cat(parts);
}

Outcome train(const Experiment& experiment, ProcessGroup& group, Strategy& strategy) {
  Trainer trainer(experiment, test::plugins_with(strategy, registry(), experiment), group);
  Outcome outcome;
  auto& buffers = trainer.data_parallel().buffers();
  for (std::int64_t step = 0; step < training(experiment).train.steps; ++step) {
    UpdateProof update(trainer.data_parallel(), training(experiment).optimizer,
                       static_cast<std::uint64_t>(step));
    const Sample sample = trainer.step(step, [&] {
      if (step == 0) outcome.gradients = packed(trainer.gradients(), buffers);
      update.keep_gradients();
    });
    outcome.computed.push_back(update.finish(group));
    outcome.losses.push_back(sample[training().loss]);
  }
  const BufferContext& context = trainer.data_parallel().context();
  outcome.agreement = context.plan().agreement;
  outcome.ranks_agree = context.ranks_agree();
  outcome.off_plan = compare_with_plan(trainer.last_records(), trainer.planned());
  outcome.parameters =
      packed(whole_parameters(trainer.data_parallel(), buffers.all()).detach(), buffers);
  outcome.copy = buffers.compute_copy(buffers.copied());
  if (const FrozenParameters* const frozen = trainer.data_parallel().frozen()) {
    std::vector<at::Tensor> units;  // in the order of the buffers
    for (const Unit& unit : frozen->buffers().units()) units.push_back(frozen->whole(unit));
    std::reverse(units.begin(), units.end());
    outcome.frozen = packed(at::cat(units), frozen->buffers()).to(at::kFloat);
  }
  outcome.integers = check_integer_gradients(trainer.data_parallel(), group);
  if (outcome.losses.empty()) return outcome;
  outcome.computed.push_back(check_attention(experiment, trainer, group, 1));
  if (training(experiment).model.kernels == KernelSet::reference) {
    outcome.computed.push_back(check_products(experiment, trainer, group, 1));
  }
  return outcome;
}

/// What every strategy promises of any training.
void expect_promises(const std::vector<Outcome>& ranks) {
  for (const auto& rank : ranks) {
    if (rank.ranks_agree) {
      EXPECT_TRUE(at::equal(rank.parameters, ranks[0].parameters)) << "ranks differ";
    }
    EXPECT_EQ(rank.off_plan, "");
    const bool exact = rank.agreement == Agreement::exact;
    EXPECT_EQ(std::string(name_of(rank.integers.status)), exact ? "passed" : "declared")
        << rank.integers.detail;
    for (const Check& check : rank.computed) {
      EXPECT_EQ(std::string(name_of(check.status)), "passed") << check.name << ": " << check.detail;
    }
  }
}

double max_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

class Contract : public testing::TestWithParam<Combination> {
 protected:
  void SetUp() override { at::set_num_threads(1); }

  static Experiment experiment() { return experiment_of(GetParam()); }

  /// All ranks' outcomes, in rank order.
  std::vector<Outcome> train_ranks(const Experiment& experiment) const {
    return test::of_ranks(
        GetParam().ranks,
        [&](ProcessGroup& group) {
          at::set_num_threads(1);
          const auto strategy = make_strategy(registry(), experiment.plugin(PluginKind::strategy));
          return train(experiment, group, *strategy);
        },
        experiment.world.comm);
  }

  /// One process, the whole global batch in one forward: the same for all strategies and numbers of
  /// ranks, so it is computed once.
  static Outcome train_alone(Experiment experiment) {
    experiment.plugin(PluginKind::strategy).name = "none";
    experiment.plugin(PluginKind::strategy).options = {};
    experiment.world = WorldConfig{};
    training(experiment).train.accumulate = 1;
    static std::map<std::string, Outcome> known;
    const std::string key = to_yaml(resolve(experiment));
    if (const auto found = known.find(key); found != known.end()) return found->second;
    test::run_ranks(1, [&](ProcessGroup& group) {
      test::Alone strategy;
      known[key] = train(experiment, group, strategy);
    });
    return known.at(key);
  }

  /// Twice how far the precision itself is from float32: ranks and one process are each that far
  /// from the exact result. Zero for float32.
  static double own_rounding(const Experiment& experiment, at::Tensor Outcome::*quantity) {
    Experiment exact = experiment;
    exact.plugin(PluginKind::precision).name = "fp32";
    return 2 * max_difference(train_alone(experiment).*quantity, train_alone(exact).*quantity);
  }

  static void expect_equal_gradients(const std::vector<Outcome>& ranks,
                                     const Experiment& experiment) {
    const at::Tensor alone = train_alone(experiment).gradients;
    const double bound =
        2e-6 * alone.abs().max().item<double>() + own_rounding(experiment, &Outcome::gradients);
    for (const auto& rank : ranks) {
      EXPECT_LE(max_difference(rank.gradients, alone), bound) << "gradients are not one process's";
    }
  }
};

TEST_P(Contract, GradientsAndParametersEqualOneProcess) {
  const Experiment sgd = experiment();
  const auto ranks = train_ranks(sgd);
  expect_promises(ranks);
  if (ranks[0].agreement == Agreement::periodic) return;  // gradients stay each rank's own
  for (const auto& rank : ranks) EXPECT_TRUE(at::equal(rank.gradients, ranks[0].gradients));
  if (ranks[0].agreement == Agreement::lossy) return;
  expect_equal_gradients(ranks, sgd);
  const Outcome alone = train_alone(sgd);
  const double rounding = own_rounding(sgd, &Outcome::parameters);
  // 1e-7, or two units in the last place where those are more (values from 0.5 on).
  const at::Tensor size = alone.parameters.abs();
  const at::Tensor unit = at::nextafter(size, at::full_like(size, INFINITY)) - size;
  const at::Tensor bound = (unit * 2).clamp_min(1e-7) + rounding;
  for (const auto& rank : ranks) {
    const at::Tensor excess = (rank.parameters - alone.parameters).abs() - bound;
    EXPECT_LE(excess.max().item<double>(), 0.0)
        << "parameters differ from those of one process by up to "
        << max_difference(rank.parameters, alone.parameters);
  }
}

TEST_P(Contract, LossCurveUnderAdamWEqualsOneProcess) {
  Experiment adamw = experiment();
  training(adamw).optimizer = OptimizerConfig{};
  training(adamw).optimizer.lr = 3e-3;
  training(adamw).optimizer.clip_norm = 1.0;
  if (!supported(adamw)) training(adamw).optimizer.clip_norm = 0.0;
  if (!supported(adamw)) GTEST_SKIP() << "a plugin refuses adamw";
  const auto ranks = train_ranks(adamw);
  expect_promises(ranks);
  if (ranks[0].agreement != Agreement::exact) return;
  const Outcome alone = train_alone(adamw);
  Experiment exact = adamw;
  exact.plugin(PluginKind::precision).name = "fp32";
  const Outcome alone_exact = train_alone(exact);
  // AdamW turns the rounding of near-zero gradients into whole steps of single parameters; the loss
  // averages them out. In a single step what is left may by chance be nothing.
  double rounding = 0.0;
  for (std::int64_t step = 0; step < training(adamw).train.steps; ++step) {
    rounding = std::max(rounding, std::abs(alone.losses[step] - alone_exact.losses[step]));
  }
  for (std::int64_t step = 0; step < training(adamw).train.steps; ++step) {
    double mean = 0.0;
    for (const auto& rank : ranks) mean += rank.losses[step] / static_cast<double>(ranks.size());
    EXPECT_NEAR(mean, alone.losses[step], 1e-4 + 4 * rounding + (rounding > 0 ? 2e-3 : 0))
        << "step " << step;
  }
}

TEST_P(Contract, AccumulationExchangesWhatIsPlanned) {
  Experiment accumulated = experiment();
  training(accumulated).train.steps = 3;
  training(accumulated).train.accumulate = 2;
  if (!supported(accumulated)) GTEST_SKIP() << "a plugin refuses accumulation";
  const auto ranks = train_ranks(accumulated);
  expect_promises(ranks);  // what travels once a step is planned once
  if (ranks[0].agreement == Agreement::exact) expect_equal_gradients(ranks, accumulated);
}

class OverlappedOptimizer : public Contract {};

TEST_P(OverlappedOptimizer, GivesTheSameBits) {
  for (const std::int64_t accumulate : {1, 2}) {
    Experiment after = experiment();
    training(after).optimizer = OptimizerConfig{};  // adamw
    training(after).train.steps = 2;
    training(after).train.accumulate = accumulate;
    Experiment during = after;
    training(during).optimizer.overlap = true;
    if (!supported(during)) GTEST_SKIP() << "a plugin refuses adamw, accumulation or overlap";
    const auto expected = train_ranks(after);
    const auto got = train_ranks(during);
    for (std::size_t rank = 0; rank < got.size(); ++rank) {
      EXPECT_EQ(got[rank].losses, expected[rank].losses);
      EXPECT_TRUE(at::equal(got[rank].gradients, expected[rank].gradients));
      EXPECT_TRUE(at::equal(got[rank].parameters, expected[rank].parameters));
      ASSERT_EQ(got[rank].copy.defined(), expected[rank].copy.defined());
      if (got[rank].copy.defined()) {
        EXPECT_TRUE(at::equal(got[rank].copy, expected[rank].copy));
      }
    }
    expect_promises(got);
  }
}

/// Frozen parameters, a weight that is used twice, and groups with settings of their own.
class PartlyTrained : public Contract {};

TEST_P(PartlyTrained, EqualsOneProcess) {
  Experiment partly = experiment();
  training(partly).model.layers = 3;
  training(partly).model.frozen = {"layers.1.*", "layers.0.attn.q_proj.weight", "ln_final.weight"};
  training(partly).model.tie_embeddings = true;
  if (!supported(partly)) training(partly).model.tie_embeddings = false;
  training(partly).optimizer.groups = {{.match = "*.ln?.weight", .lr_scale = 0.5},
                                       {.match = "token_embeddings.*", .weight_decay = 0.1}};
  training(partly).train.steps = 6;
  training(partly).train.accumulate = 2;
  const auto ranks = train_ranks(partly);
  expect_promises(ranks);
  if (ranks[0].agreement != Agreement::exact) return;
  const Outcome alone = train_alone(partly);
  Experiment untouched = partly;
  training(untouched).train.steps = 0;
  const Outcome before = train_alone(untouched);
  EXPECT_EQ(before.frozen.numel(), 4 * 32 * 32 + 3 * 32 * 64 + 2 * 32 + 32 * 32 + 32);
  const double rounding = own_rounding(partly, &Outcome::parameters);
  for (const auto& rank : ranks) {
    EXPECT_TRUE(at::equal(rank.frozen, before.frozen));
    EXPECT_LE(max_difference(rank.parameters, alone.parameters), 5e-7 + rounding);
  }
}

/// On two ranks, with the plugin's defaults.
std::vector<Combination> on_two_ranks() {
  std::vector<Combination> all = combinations();
  std::erase_if(all, [](const Combination& one) {
    return one.ranks != 2 || !one.strategy_options.map.empty();
  });
  return all;
}

INSTANTIATE_TEST_SUITE_P(Plugins, PartlyTrained, testing::ValuesIn(on_two_ranks()),
                         [](const auto& info) { return name_of(info.param); });

INSTANTIATE_TEST_SUITE_P(Plugins, OverlappedOptimizer, testing::ValuesIn(overlapping()),
                         [](const auto& info) { return name_of(info.param); });

INSTANTIATE_TEST_SUITE_P(Plugins, Contract, testing::ValuesIn(combinations()),
                         [](const auto& info) { return name_of(info.param); });

TEST(Discovery, EveryPluginIsInSomeCombination) {
  for (const auto kind : {PluginKind::strategy, PluginKind::precision, PluginKind::attention}) {
    const auto names = discovered(kind);
    EXPECT_FALSE(names.empty()) << to_string(kind);
    for (const auto& name : names) {
      const auto all = combinations();
      const bool runs = std::any_of(all.begin(), all.end(), [&](const Combination& one) {
        return one.strategy == name || one.precision == name || one.attention == name;
      });
      const Combination alone{.strategy = kind == PluginKind::strategy ? name : "none",
                              .precision = kind == PluginKind::precision ? name : "fp32",
                              .attention = kind == PluginKind::attention ? name : "sdpa"};
      EXPECT_TRUE(runs || refusal(kind, experiment_of(alone))) << name;
    }
  }
}

}  // namespace
}  // namespace ddprun
