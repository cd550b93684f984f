// Frozen parameters under strategies that hold parameters by unit: in slices, gathered to be used.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "ddprun/experiments/training/trainer.h"
#include "ddprun/proof/proof.h"
#include "support/matchers.h"
#include "support/plain_sgd.h"
#include "support/plugin_registry.h"
#include "support/proved_training.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

using test::registry;

using Patterns = std::vector<std::string>;

const Patterns kBelow = {"token*", "layers.[0-5].*"};                       // no backward
const Patterns kWithin = {"layers.[1-6].*"};                                // with one
const Patterns kParts = {"*.ffn.*", "*.ln1.*", "lm_head.*", "layers.2.*"};  // of trained units, too
const Patterns kAllButOne = {"token*",       "layers.[0-6].*",       "layers.7.attn.*",
                             "layers.7.ln*", "layers.7.ffn.w[12].*", "l?_*"};

Experiment experiment_of(const std::string& strategy, const std::string& precision,
                         const Patterns& frozen, int ranks) {
  Experiment experiment = test::sharding_experiment(strategy, precision, ranks);
  training(experiment).model.layers = 8;
  training(experiment).model.frozen = frozen;
  return experiment;
}

test::ProvedTraining train(const Experiment& experiment, ProcessGroup& group, bool in_slices) {
  Trainer trainer(experiment, make_plugins(registry(), experiment), group);
  EXPECT_EQ(trainer.data_parallel().frozen()->in_slices(), in_slices);
  return test::train_and_prove(trainer, group, 3);
}

/// What is frozen, precision, kernels, micro-batches and recomputation.
struct Case {
  const char* name;
  Patterns frozen;
  const char* precision = "fp32";
  KernelSet kernels = KernelSet::fused;
  int accumulate = 1;
  RecomputeForm recompute = RecomputeForm::none;
  UnitSize unit = UnitSize::block;
};

class FrozenInSlices : public testing::TestWithParam<Case> {};

TEST_P(FrozenInSlices, TrainAsWholeOnesDo) {
  const Case& one = GetParam();
  Experiment slices = experiment_of("{name: fsdp}", one.precision, one.frozen, 2);
  training(slices).model.kernels = one.kernels;
  training(slices).model.recompute.form = one.recompute;
  training(slices).model.unit = one.unit;
  training(slices).train.accumulate = one.accumulate;
  Experiment whole = slices;
  whole.plugin(PluginKind::strategy) = test::strategy_choice("{name: zero2}");
  test::run_ranks(2, [&](ProcessGroup& group) {
    test::expect_equal(train(slices, group, true), train(whole, group, false));
  });
}

TEST(FrozenParameters, AreInSlicesOfEachGroup) {
  const std::string groups = "{name: hsdp, shard_ranks: 2}";
  test::run_ranks(4, [&](ProcessGroup& group) {
    const auto expected = train(experiment_of("{name: zero2}", "fp32", kParts, 4), group, false);
    test::expect_equal(train(experiment_of(groups, "fp32", kParts, 4), group, true), expected,
                       1e-5);
  });
}

INSTANTIATE_TEST_SUITE_P(
    FrozenParameters, FrozenInSlices,
    testing::Values(Case{"below", kBelow}, Case{"within", kWithin}, Case{"parts", kParts},
                    Case{"all_but_one", kAllButOne}, Case{"below_bf16", kBelow, "bf16_mixed"},
                    Case{"parts_bf16", kParts, "bf16_mixed"},
                    Case{"parts_reference", kParts, "fp32", KernelSet::reference},
                    Case{"within_bf16_true", kWithin, "bf16_true", KernelSet::reference},
                    Case{"parts_accumulated", kParts, "bf16_mixed", KernelSet::fused, 2},
                    Case{"parts_by_layer", kParts, "bf16_mixed", KernelSet::fused, 2,
                         RecomputeForm::none, UnitSize::layer},
                    Case{"below_recomputed", kBelow, "fp32", KernelSet::fused, 1,
                         RecomputeForm::every_block},
                    Case{"parts_recomputed", kParts, "bf16_mixed", KernelSet::fused, 2,
                         RecomputeForm::every_block}),
    [](const auto& test) { return test.param.name; });

TEST(FrozenParameters, ARankHoldsItsSliceAndTwoUnits) {
  for (const int ranks : {2, 3}) {
    Experiment experiment = experiment_of("{name: fsdp}", "fp32", kWithin, ranks);
    training(experiment).train.global_batch = 6;
    test::run_ranks(ranks, [&](ProcessGroup& group) {
      Trainer trainer(experiment, make_plugins(registry(), experiment), group);
      const FlatBuffers& frozen = trainer.data_parallel().frozen()->buffers();
      ASSERT_EQ(frozen.units().size(), 6U);
      const std::int64_t p = frozen.all().size();
      EXPECT_EQ(frozen.allocated_bytes(), 4 * p / ranks + 4 * 2 * p / 6);
    });
  }
}

TEST(FrozenParameters, ASliceWithoutRank0sValueIsFound) {
  const Experiment experiment = experiment_of("{name: fsdp}", "fp32", kWithin, 2);
  test::run_ranks(2, [&](ProcessGroup& group) {
    Trainer trainer(experiment, make_plugins(registry(), experiment), group);
    DataParallel& ddp = trainer.data_parallel();
    const FlatBuffers& frozen = ddp.frozen()->buffers();
    if (group.rank() == 1) frozen.parameters(frozen.owned().back()).fill_(std::nanf(""));
    const Check check = check_initial_parameters(ddp, group);
    EXPECT_EQ(check.status, CheckStatus::failed);
    EXPECT_THAT(check.detail, HasSubstr("is not that of rank 0"));
  });
}

/// Five units that are frozen, and one that is trained.
std::vector<NamedTensor> six_units() {
  std::vector<NamedTensor> parameters;
  for (const char* unit : {"a", "b", "c", "d", "e"}) {
    parameters.push_back({unit, at::ones({64}), unit});
  }
  parameters.push_back({"w", at::ones({64}).requires_grad_(), "w"});
  return parameters;
}

/// What is said of a forward that names the last unit alone, after the program did `before`.
std::string refused(const std::function<void(std::vector<NamedTensor>&)>& before) {
  return test::of_ranks(2, [&](ProcessGroup& group) {
    const auto strategy = test::strategy_of("{name: fsdp}");
    std::vector<NamedTensor> parameters = six_units();
    DataParallel ddp(parameters, group, *strategy, test::fp32(), test::plain_sgd());
    EXPECT_TRUE(ddp.frozen()->in_slices());
    before(parameters);
    return test::error_of([&] {
      ddp.forward([&] { return ddp.unit(5, [&] { return parameters[5].tensor.sum(); }); });
    });
  })[0];
}

TEST(FrozenParameters, AUnitThatIsNotToldIsRefused) {
  EXPECT_THAT(refused([](auto&) {}), HasSubstr("those that are frozen too"));
}

TEST(FrozenParameters, AWriteToWhatIsGatheredIsRefused) {
  for (const int written : {0, 5}) {  // a frozen one, and one that is trained
    const std::string message = refused([&](auto& parameters) {
      const at::NoGradGuard no_gradients;
      parameters[written].tensor.fill_(2);
    });
    EXPECT_THAT(message, AllOf(HasSubstr("written where the value is lost"),
                               HasSubstr("a write to " + six_units()[written].name)));
  }
}

TEST(FrozenParameters, AreWholeWhereSlicesWouldGainNothing) {
  test::run_ranks(2, [&](ProcessGroup& group) {
    const Experiment stay =
        experiment_of("{name: fsdp, reshard_after_forward: false}", "fp32", kWithin, 2);
    train(stay, group, false);
    Experiment tied = experiment_of("{name: fsdp}", "fp32", {"token*", "layers.[0-6].*"}, 2);
    training(tied).model.tie_embeddings = true;
    train(tied, group, false);
    train(experiment_of("{name: fsdp}", "fp32", {"layers.1.*", "layers.2.*"}, 2), group, false);
  });
}

}  // namespace
}  // namespace ddprun
