// Strategies whose ranks own parts: what a rank holds, and that nothing is read that was let go.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "ddprun/experiments/training/trainer.h"
#include "ddprun/optim/flat_parts.h"
#include "ddprun/parallel/buffer_context.h"
#include "ddprun/parallel/whole_buffers.h"
#include "support/experiments.h"
#include "support/matchers.h"
#include "support/passing_strategy.h"
#include "support/plain_sgd.h"
#include "support/plugin_registry.h"
#include "support/proved_training.h"
#include "support/thread_ranks.h"

namespace ddprun::sharding_test {
namespace {

using test::registry;

std::int64_t whole_lines(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// Bytes of buffers and moments on a rank, by the table of docs/strategies.md.
std::int64_t formula(const std::string& strategy, bool copy, const ParameterLayout& layout) {
  const std::int64_t p = layout.all().size();
  const std::int64_t n = strategy == "hsdp" ? layout.ranks() / 2 : layout.ranks();
  std::int64_t neighbours = 0;  // elements of gradients
  std::int64_t gathered = 0;    // bytes of parameters
  std::int64_t all = 0;         // likewise, of all units
  std::int64_t norms = 0;       // bytes
  for (const int norm : norms_of(layout)) norms += 4 * layout.range(norm).size();
  const auto bytes = [&](const Unit& unit) {
    return unit.range.size() * static_cast<std::int64_t>(c10::elementSize(unit.dtype));
  };
  for (const Unit& unit : layout.units()) all += whole_lines(bytes(unit));
  for (std::size_t i = 1; i < layout.units().size(); ++i) {
    const Unit& before = layout.units()[i - 1];
    const Unit& unit = layout.units()[i];
    neighbours = std::max(neighbours, before.range.size() + unit.range.size());
    gathered = std::max(gathered, whole_lines(bytes(before)) + whole_lines(bytes(unit)));
  }
  // No product reads the embedding.
  const std::int64_t c = copy ? 2 * (p - layout.units().front().range.size()) : 0;
  if (strategy == "flat") return 4 * p + c + 4 * p + 8 * p;
  if (strategy.starts_with("zero1")) return 4 * p + c + 4 * p + 8 * p / n;
  if (strategy == "zero2") return 4 * p + c + 4 * p / n + 4 * neighbours + 8 * p / n;
  if (strategy == "fsdp, kept") return 16 * p / n + 4 * neighbours + all + norms;
  return 16 * p / n + 4 * neighbours + gathered + norms;
}

/// By the names of formula().
std::string yaml_of(const std::string& strategy, int ranks) {
  if (strategy == "fsdp, kept") return "{name: fsdp, reshard_after_forward: false}";
  if (strategy == "zero1, one bucket") return "{name: zero1, bucket_mb: 25}";
  if (strategy == "hsdp") return "{name: hsdp, shard_ranks: " + std::to_string(ranks / 2) + "}";
  return "{name: " + strategy + "}";
}

TEST(Sharding, ARankHoldsWhatTheFormulaSays) {
  for (const char* strategy :
       {"flat", "zero1", "zero1, one bucket", "zero2", "fsdp", "fsdp, kept", "hsdp"}) {
    for (const char* precision : {"fp32", "bf16_mixed"}) {
      for (const auto& [ranks, unit] :
           {std::pair{2, UnitSize::block}, {3, UnitSize::block}, {2, UnitSize::layer}}) {
        if (strategy == std::string("hsdp") && ranks % 2 != 0) continue;
        Experiment experiment =
            test::sharding_experiment(yaml_of(strategy, ranks), precision, ranks);
        training(experiment).model.unit = unit;
        training(experiment).train.global_batch = 6;
        test::run_ranks(ranks, [&](ProcessGroup& group) {
          Trainer trainer(experiment, make_plugins(registry(), experiment), group);
          trainer.step(0);
          const DataParallel& ddp = trainer.data_parallel();
          const bool copy = std::string(precision) != "fp32";
          EXPECT_EQ(ddp.buffers().units().size(), unit == UnitSize::layer ? 8U : 5U);
          EXPECT_EQ(
              ddp.buffers().allocated_bytes() + trainer.data_parallel().optimizer().state_bytes(),
              formula(strategy, copy, ddp.buffers()))
              << strategy << ", " << precision << ", " << ranks << " ranks, by " << name_of(unit);
        });
      }
    }
  }
}

/// How the parameters of the experiment's model lie, with fused kernels.
ParameterLayout layout_of(const Experiment& experiment, int ranks, const BufferDtypes& dtypes) {
  const auto attention = make_attention(registry(), experiment.plugin(PluginKind::attention));
  const Transformer model(training(experiment).model, *attention, 1);
  return {model.parameters(), dtypes, KernelSet::fused, ranks};
}

/// All-reduces that carry parameters, in each step: the plan's, which runs are held to.
std::ptrdiff_t planned_all_reduces(const Experiment& experiment) {
  BufferDtypes dtypes;
  dtypes.compute = at::kBFloat16;
  const ParameterLayout layout = layout_of(experiment, 2, dtypes);
  const Plan plan =
      make_strategy(registry(), experiment.plugin(PluginKind::strategy))->plan(layout, 0);
  return std::count_if(plan.collectives.begin(), plan.collectives.end(), [](const auto& planned) {
    return planned.kind == CollectiveKind::all_reduce;
  });
}

TEST(Sharding, NormsTravelOnceAStepAndTrainAsWithoutShards) {
  for (const char* strategy :
       {"{name: zero1}", "{name: zero2}", "{name: fsdp}",
        "{name: fsdp, reshard_after_forward: false}", "{name: hsdp, shard_ranks: 2}"}) {
    for (const int accumulate : {1, 2}) {
      SCOPED_TRACE(strategy + std::string(", accumulate ") + std::to_string(accumulate));
      Experiment sharded = test::sharding_experiment(strategy, "bf16_mixed", 2);
      training(sharded).train.accumulate = accumulate;
      Experiment whole = sharded;
      whole.plugin(PluginKind::strategy) = test::strategy_choice("{name: bucketed}");
      EXPECT_EQ(planned_all_reduces(sharded), 1);
      test::run_ranks(2, [&](ProcessGroup& group) {
        const auto expected = test::train_and_prove(whole, group, 3);
        const double within = accumulate == 1 ? 0 : 1e-5;  // means of sums, or sums of means
        test::expect_equal(test::train_and_prove(sharded, group, 3), expected, within);
      });
    }
  }
}

TEST(Sharding, AProgramOfOnesOwnThatCapturesStepsIsToldWhyItCannot) {
  const std::pair<const char*, const char*> refused[] = {
      {"local_sgd", "only some of its steps average"},
      {"powersgd", "cuSOLVER"},
      {"torch_ddp", "times of its own"}};
  test::run_ranks(1, [&refused](ProcessGroup& group) {
    for (const auto& [strategy, reason] : refused) {
      const auto plugin =
          make_strategy(registry(), test::strategy_choice(std::string("{name: ") + strategy + "}"));
      EXPECT_THAT(test::error_of<ConfigError>([&] {
                    DataParallel({{"w", at::ones({5}).requires_grad_()}}, group, *plugin,
                                 test::fp32(), test::plain_sgd(),
                                 {.execution = ExecutionMode::cuda_graph});
                  }),
                  HasSubstr(reason))
          << strategy;
    }
  });
}

TEST(Sharding, AWriteToAParameterThatIsGatheredIsRefused) {
  test::run_ranks(1, [](ProcessGroup& group) {
    const auto plugin = make_strategy(registry(), test::strategy_choice("{name: fsdp}"));
    at::Tensor weight = at::ones({5}).requires_grad_();
    DataParallel ddp({{"w", weight}}, group, *plugin, test::fp32(), test::plain_sgd());
    const auto forward = [&] {
      ddp.forward([&] { return ddp.unit(0, [&] { return weight.sum(); }); });
    };
    forward();
    {
      const at::NoGradGuard no_gradients;
      weight.fill_(3);
    }
    EXPECT_THAT(test::error_of(forward),
                HasSubstr("a write to w, of which the model reads a copy"));
  });
}

/// Overwrites a unit's place with NaN when the unit is let go.
class Poisons : public test::PassingStrategy {
 public:
  using PassingStrategy::PassingStrategy;
  void after_unit(Pass pass, int unit) override {
    PassingStrategy::after_unit(pass, unit);
    // The last two units are needed again at the begin of backward.
    const auto& units = context_->layout().units();
    if (pass == Pass::forward && unit + 2 >= std::ssize(units)) return;
    if (pass == Pass::forward && units[unit].used_elsewhere) return;
    const FlatBuffers& buffers = dynamic_cast<BufferContext&>(*context_).buffers();
    for (int index = units[unit].first; index <= units[unit].last; ++index) {
      if (read_dtype(buffers, index) != units[unit].dtype) continue;  // norms stay
      for (const at::Tensor& read : buffers.read(index)) read.fill_(std::nanf(""));
    }
    ++poisoned;
  }
  int poisoned = 0;
};

struct Trained {
  at::Tensor gradients, parameters;
};

Trained train(const Experiment& experiment, ProcessGroup& group, Strategy& strategy) {
  Trainer trainer(experiment, test::plugins_with(strategy, registry(), experiment), group);
  Trained out;
  for (int step = 0; step < 3; ++step) {
    trainer.step(step, [&] { out.gradients = trainer.gradients(); });
  }
  const Range all = trainer.data_parallel().buffers().all();
  out.parameters = whole_parameters(trainer.data_parallel(), all).clone();
  return out;
}

/// Precision, kernels, micro-batches, units.
class LetGo : public testing::TestWithParam<std::tuple<const char*, KernelSet, int, UnitSize>> {};

void expect_no_harm_by_poison(const Experiment& sharded) {
  Experiment kept = sharded;
  kept.plugin(PluginKind::strategy) = test::strategy_choice("{name: zero2}");
  test::run_ranks(2, [&](ProcessGroup& group) {
    const auto whole = make_strategy(registry(), kept.plugin(PluginKind::strategy));
    const Trained expected = train(kept, group, *whole);
    Poisons poisons(make_strategy(registry(), sharded.plugin(PluginKind::strategy)));
    const Trained got = train(sharded, group, poisons);
    EXPECT_GT(poisons.poisoned, 0);
    EXPECT_TRUE(at::equal(got.gradients, expected.gradients));
    EXPECT_TRUE(at::equal(got.parameters, expected.parameters));
    EXPECT_FALSE(got.parameters.isnan().any().item<bool>());
  });
}

TEST_P(LetGo, APlaceThatIsPoisonedLeavesGradientsAndParametersEqual) {
  const auto [precision, kernels, accumulate, unit] = GetParam();
  Experiment sharded = test::sharding_experiment("{name: fsdp}", precision, 2);
  training(sharded).model.unit = unit;
  training(sharded).model.kernels = kernels;
  training(sharded).train.accumulate = accumulate;
  expect_no_harm_by_poison(sharded);
  training(sharded).model.tie_embeddings = true;  // the embedding stays
  expect_no_harm_by_poison(sharded);
}

INSTANTIATE_TEST_SUITE_P(Sharding, LetGo,
                         testing::Combine(testing::Values("fp32", "bf16_mixed"),
                                          testing::Values(KernelSet::fused, KernelSet::reference),
                                          testing::Values(1, 2),
                                          testing::Values(UnitSize::block, UnitSize::layer)),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) + "_" +
                                  name_of(std::get<1>(test.param)) + "_" +
                                  std::to_string(std::get<2>(test.param)) + "_" +
                                  name_of(std::get<3>(test.param));
                         });

TEST(Sharding, LayersAsUnitsTrainAsBlocksDo) {
  for (const char* strategy : {"zero1", "zero1, one bucket", "zero2", "fsdp", "fsdp, kept"}) {
    for (const char* precision : {"fp32", "bf16_mixed"}) {
      SCOPED_TRACE(std::string(strategy) + ", " + precision);
      Experiment blocks = test::sharding_experiment(yaml_of(strategy, 2), precision, 2);
      if (strategy != std::string("fsdp")) {
        training(blocks).model.recompute.form = RecomputeForm::every_block;
      }
      Experiment layers = blocks;
      training(layers).model.unit = UnitSize::layer;
      test::run_ranks(2, [&](ProcessGroup& group) {
        const auto expected = test::train_and_prove(blocks, group, 3);
        test::expect_equal(test::train_and_prove(layers, group, 3), expected);
      });
    }
  }
}

TEST(Sharding, LayersAreUnitsThatStrategiesHearOf) {
  Experiment experiment = test::sharding_experiment("{name: fsdp}", "fp32", 2);
  training(experiment).model.unit = UnitSize::layer;
  training(experiment).model.recompute.form = RecomputeForm::every_block;
  const ParameterLayout layout = layout_of(experiment, 2, {});
  std::vector<std::string> names;
  for (const Unit& unit : layout.units()) names.push_back(unit.name);
  EXPECT_THAT(names,
              ElementsAre("token_embeddings", "layers.0.attn", "layers.0.ffn", "layers.1.attn",
                          "layers.1.ffn", "layers.2.attn", "layers.2.ffn", "head"));
  const RunDescription run = describe_run(experiment, test::fp32());
  EXPECT_EQ(run.recomputed_units, 2);
  const auto refusal =
      make_strategy(registry(), experiment.plugin(PluginKind::strategy))->unsupported(run);
  ASSERT_TRUE(refusal);
  EXPECT_THAT(refusal->hint, HasSubstr("`unit: block`"));
}

// Products write such gradients themselves, but for micro-batches that add up before they travel.
TEST(Sharding, GradientsInBfloat16AreAlikeHeldWholeOrByUnit) {
  for (const int accumulate : {1, 2}) {
    for (const KernelSet kernels : {KernelSet::fused, KernelSet::reference}) {
      Experiment whole = test::sharding_experiment("{name: bucketed}", "bf16_mixed", 2);
      whole.plugin(PluginKind::precision).options = parse_yaml("{reduce_dtype: bfloat16}", "test");
      training(whole).model.layers = 2;  // each adds rounding
      training(whole).model.kernels = kernels;
      training(whole).train.accumulate = accumulate;
      // SGD: AdamW would make the same step of a gradient half as large.
      training(whole).optimizer = training(test::small_experiment(2)).optimizer;
      test::run_ranks(2, [&](ProcessGroup& group) {
        const auto expected = test::train_and_prove(whole, group, 3);
        for (const char* strategy : {"{name: zero2}", "{name: fsdp}"}) {
          SCOPED_TRACE(strategy);
          Experiment by_unit = whole;
          by_unit.plugin(PluginKind::strategy) = test::strategy_choice(strategy);
          const double within = accumulate == 1 ? 0 : 1e-3;  // the sum is rounded, or its terms
          test::expect_equal(test::train_and_prove(by_unit, group, 3), expected, within);
        }
      });
    }
  }
}

TEST(Sharding, PlansOfAThousandRanksNeedNoRank) {
  const Experiment experiment = test::sharding_experiment("{name: zero1}", "fp32", 1);
  const ParameterLayout layout = layout_of(experiment, 1024, {});
  for (const char* name : {"zero1", "zero1_cs336", "zero2", "fsdp"}) {
    const auto strategy = test::strategy_of(std::string("{name: ") + name + "}");
    std::int64_t owned = 0;
    for (int rank = 0; rank < 1024; ++rank) {
      for (const Range& range : strategy->plan(layout, rank).holding.owned) owned += range.size();
    }
    EXPECT_EQ(owned, layout.all().size()) << name;
  }
}

}  // namespace
}  // namespace ddprun::sharding_test
