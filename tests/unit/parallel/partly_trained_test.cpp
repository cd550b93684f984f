// Models of which a part is frozen, or a weight is used twice.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <string>
#include <tuple>
#include <vector>

#include "ddprun/experiments/training/trainer.h"
#include "ddprun/parallel/data_parallel.h"
#include "ddprun/parallel/whole_buffers.h"
#include "ddprun/proof/proof.h"
#include "support/matchers.h"
#include "support/plain_sgd.h"
#include "support/plugin_registry.h"
#include "support/proved_training.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

using test::plain_sgd;

/// frozen * used + used^2: `used` comes twice.
struct PartlyTrained {
  explicit PartlyTrained(int rank)
      : frozen(at::full({2, 2}, 3.0F - static_cast<float>(rank))),
        used(at::full({2, 2}, 2.0F + static_cast<float>(rank)).requires_grad_()) {}
  at::Tensor frozen, used;
  std::vector<NamedTensor> parameters(const std::string& last_unit) const {
    return {{"frozen", frozen, "first"}, {"used", used, "second"}, {"again", used, last_unit}};
  }
};

TEST(TwoRanks, HaveFrozenAndTiedParametersAsRank0Has) {
  test::run_ranks(2, [](ProcessGroup& group) {
    const PartlyTrained model(group.rank());
    class : public Strategy {
      void finish_backward() override {
        const Range all = context_->layout().all();
        context_->group().all_reduce(context_->gradients(all), ReduceOp::avg, "all").wait();
      }
    } strategy;
    DataParallel ddp(model.parameters("third"), group, strategy, test::fp32(), plain_sgd());
    EXPECT_EQ(ddp.buffers().count(), 1);
    EXPECT_THAT(ddp.roles().units, ElementsAre(-1, 0, -1)) << "the third unit has none of its own";
    ddp.backward(
        ddp.forward([&] { return (model.frozen * model.used + model.used.square()).sum(); }));
    ddp.step(0.5, 0.0);
    const auto saved = full_parameters(ddp);
    ASSERT_EQ(saved.size(), 3U);
    EXPECT_EQ(saved[0].name, "frozen");
    EXPECT_TRUE(at::equal(saved[0].tensor, at::full({2, 2}, 3.0F))) << "rank 0's, unchanged";
    EXPECT_FALSE(model.frozen.grad().defined());
    for (const int i : {1, 2}) {  // 2 - 0.5 (3 + 2 * 2)
      EXPECT_TRUE(at::equal(saved[i].tensor, at::full({2, 2}, -1.5F))) << saved[i].name;
    }
    const Check equal = check_parameters_equal(ddp, group);
    EXPECT_EQ(equal.status, CheckStatus::passed) << equal.detail;
    if (group.rank() == 1) model.frozen.fill_(4);
    const Check differ = check_parameters_equal(ddp, group);
    EXPECT_EQ(differ.status, CheckStatus::failed);
    EXPECT_THAT(differ.detail, HasSubstr("frozen is not that of rank 0 on rank 1"));
  });
}

TEST(FullParameters, AreTheModelsByNameWhoeverOwnsThem) {
  for (const char* yaml : {"{name: flat}", "{name: zero1}", "{name: zero1_cs336}"}) {
    test::run_ranks(3, [&](ProcessGroup& group) {
      std::vector<NamedTensor> parameters;
      for (int i = 0; i < 4; ++i) {
        at::Tensor values = at::arange(6 * (i + 1), at::kFloat).add(100.0 * i).view({i + 1, 6});
        if (i == 1) values = values.t();  // keeps its strides
        parameters.push_back({"p" + std::to_string(i), values.requires_grad_(i != 2)});
      }
      std::vector<at::Tensor> before;
      for (const NamedTensor& each : parameters) before.push_back(each.tensor.detach().clone());
      const auto strategy = test::strategy_of(yaml);
      DataParallel ddp(parameters, group, *strategy, test::fp32(), plain_sgd());
      ddp.backward(ddp.forward([&] {
        return parameters[0].tensor.sum() + parameters[1].tensor.sum() + parameters[3].tensor.sum();
      }));
      ddp.step(1.0, 0.0);
      const auto saved = full_parameters(ddp);
      ASSERT_EQ(saved.size(), 4U);
      for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(saved[i].name, parameters[i].name);
        EXPECT_EQ(saved[i].tensor.strides(), before[i].strides()) << yaml << i;
        EXPECT_TRUE(at::equal(saved[i].tensor, i == 2 ? before[i] : before[i] - 1)) << yaml << i;
      }
    });
  }
}

TEST(FrozenParameters, AreHeldToWhatTrainedOnesAre) {
  const auto group = connect_thread(make_thread_store(), 0, 1, {});
  const at::Tensor used = at::ones({4}).requires_grad_();
  const auto error = [&](const at::Tensor& frozen) {
    const auto strategy = test::strategy_of("{name: flat}");
    return test::error_of<ConfigError>([&] {
      DataParallel({{"used", used}, {"frozen", frozen}}, *group, *strategy, test::fp32(),
                   plain_sgd());
    });
  };
  EXPECT_THAT(error(at::ones({4}, at::kDouble)),
              AllOf(HasSubstr("\"frozen\" cannot move"), HasSubstr("CPUDoubleType")));
  EXPECT_THAT(error(used.detach()), HasSubstr("memory of an earlier parameter"));
}

/// Embedding and head share a weight, with blocks between them.
class TiedUnits : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

Experiment tied_experiment(const std::string& strategy, const std::string& precision, int ranks) {
  Experiment experiment = test::sharding_experiment(strategy, precision, ranks);
  training(experiment).model.layers = 4;
  training(experiment).model.tie_embeddings = true;
  training(experiment).train.accumulate = 2;
  return experiment;
}

TEST_P(TiedUnits, TrainAsTheyDoWhereEverythingIsWhole) {
  const auto [strategy, precision] = GetParam();
  for (const KernelSet kernels : {KernelSet::fused, KernelSet::reference}) {
    const bool fuses = std::string(precision) != "bf16_true";
    if (kernels == KernelSet::fused && !fuses) continue;
    Experiment by_unit = tied_experiment(strategy, precision, 2);
    Experiment whole = tied_experiment("{name: bucketed}", precision, 2);
    training(by_unit).model.kernels = training(whole).model.kernels = kernels;
    test::run_ranks(2, [&](ProcessGroup& group) {
      const auto expected = test::train_and_prove(whole, group, 3);
      // Micro-batches are summed in another order, and in another dtype.
      const double within = std::string(precision) == "fp32" ? 1e-5 : 4e-3;
      test::expect_equal(test::train_and_prove(by_unit, group, 3), expected, within);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(
    Strategies, TiedUnits,
    testing::Combine(testing::Values("{name: zero2}", "{name: fsdp}",
                                     "{name: fsdp, reshard_after_forward: false}",
                                     "{name: hsdp, shard_ranks: 1}"),
                     testing::Values("fp32", "bf16_mixed", "bf16_true")));

TEST(TiedUnits, TheirUnitHasAPlaceOfItsOwn) {
  const Experiment experiment = tied_experiment("{name: fsdp}", "fp32", 2);
  test::run_ranks(2, [&](ProcessGroup& group) {
    Trainer trainer(experiment, make_plugins(test::registry(), experiment), group);
    const FlatBuffers& buffers = trainer.data_parallel().buffers();
    const auto& units = buffers.units();
    ASSERT_TRUE(units[0].used_elsewhere);
    const std::int64_t own = units[0].range.size(), block = units[1].range.size();
    // Parameters and gradients: slices, the tied unit, and two blocks.
    EXPECT_EQ(buffers.allocated_bytes(), 2 * 4 * (buffers.all().size() / 2 + own + 2 * block));
  });
}

}  // namespace
}  // namespace ddprun
