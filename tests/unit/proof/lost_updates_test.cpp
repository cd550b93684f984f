// Each count is compared with one by hand.
#include "ddprun/proof/lost_updates.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include "support/thread_ranks.h"

namespace ddprun {
namespace {

/// 1 minus this is 1 in float32.
constexpr double kLost = 0x1p-26;

class Halves : public test::Alone {
 public:
  Plan plan(const ParameterLayout& layout, int rank) const override {
    Plan plan;
    plan.holding.owned = {layout.slice(layout.all(), rank)};
    return plan;
  }
};

class ForgetsToUpdateTheLast : public test::Alone {
 public:
  void update() override {
    const at::Tensor last = context_->parameters(context_->layout().range(0));
    const at::Tensor before = last.clone();
    test::Alone::update();
    last.copy_(before);
  }
};

struct Counted {
  std::vector<std::optional<double>> shares;
  std::vector<LostUpdates> tensors;
};

/// Steps of SGD at learning rate 1, from weights 1. `gradients`: in each step of each parameter.
Counted count(Strategy& strategy, ProcessGroup& group, OptimizerConfig optimizer,
              const std::vector<std::vector<at::Tensor>>& gradients, bool updated = true) {
  optimizer.name = OptimizerKind::sgd;
  optimizer.weight_decay = 0;
  std::vector<NamedTensor> parameters;
  for (const at::Tensor& each : gradients.front()) {
    parameters.push_back({.name = "w" + std::to_string(parameters.size()),
                          .tensor = at::ones_like(each).requires_grad_(true)});
  }
  DataParallel ddp(parameters, group, strategy, test::fp32(), optimizer);
  LostUpdateCounter counter(ddp, optimizer);
  Counted out;
  for (const auto& step : gradients) {
    counter.begin_step();
    ddp.backward(ddp.forward([&] {
      at::Tensor loss = at::zeros({});
      for (std::size_t i = 0; i < step.size(); ++i) {
        loss = loss + (parameters[i].tensor * step[i]).sum();
      }
      return loss;
    }));
    counter.keep_gradients();
    ddp.step(1.0, 0);
    out.shares.push_back(counter.end_step(group, updated));
  }
  out.tensors = counter.tensors();
  return out;
}

/// Of 15 weights 2 do not move, and 4 of the others lose their update; 7 weights lose all.
std::vector<at::Tensor> two_gradients() {
  at::Tensor first = at::full({3, 5}, 0.25);
  first.flatten().narrow(0, 0, 2).zero_();
  first.flatten().narrow(0, 6, 4).fill_(kLost);
  return {first, at::full({7}, kLost)};
}

void expect_by_hand(const Counted& counted) {
  for (const auto& share : counted.shares) EXPECT_DOUBLE_EQ(share.value(), 100.0 * 11 / 20);
  ASSERT_EQ(counted.tensors.size(), 2u);
  const LostUpdates& worst = counted.tensors[0];
  EXPECT_EQ(worst.parameter, "w1");
  EXPECT_EQ(worst.weights, 7);
  EXPECT_EQ(worst.looked_at, 7);
  EXPECT_EQ(worst.lost, 7);
  EXPECT_EQ(worst.steps, 2);
  EXPECT_TRUE(worst.stands_still());
  EXPECT_EQ(counted.tensors[1].looked_at, 13);
  EXPECT_EQ(counted.tensors[1].lost, 4);
  EXPECT_FALSE(counted.tensors[1].stands_still());
}

template <class S>
void count_on_two_ranks() {
  test::run_ranks(2, [](ProcessGroup& group) {
    S strategy;
    expect_by_hand(count(strategy, group, {}, {two_gradients(), two_gradients()}));
  });
}

TEST(LostUpdates, AreCountedOnceWhereEachRankUpdatesAll) { count_on_two_ranks<test::Alone>(); }

TEST(LostUpdates, AreAddedUpWhereRanksOwnParts) { count_on_two_ranks<Halves>(); }

/// On one rank.
Counted count_alone(const OptimizerConfig& optimizer,
                    const std::vector<std::vector<at::Tensor>>& gradients, bool updated = true) {
  return test::of_ranks(1, [&](ProcessGroup& group) {
    test::Alone strategy;
    return count(strategy, group, optimizer, gradients, updated);
  })[0];
}

TEST(LostUpdates, AreOfSeveralStepsBeforeATensorStandsStill) {
  EXPECT_FALSE(count_alone({}, {two_gradients()}).tensors[0].stands_still());
  const auto moved_once = {
      two_gradients(), std::vector{at::full({3, 5}, 0.25), at::full({7}, 0.25)}, two_gradients()};
  const LostUpdates worst = count_alone({}, moved_once).tensors[0];
  EXPECT_EQ(worst.steps, 3);
  EXPECT_EQ(worst.steps_without_effect, 2);
  EXPECT_FALSE(worst.stands_still());
}

TEST(LostUpdates, AreNoneWhereTheStepWasSkipped) {
  const Counted counted = count_alone({}, {two_gradients()}, /*updated=*/false);
  EXPECT_FALSE(counted.shares[0].has_value());
  EXPECT_TRUE(counted.tensors.empty());
}

TEST(LostUpdates, AreNoneOfParametersWithoutALearningRate) {
  OptimizerConfig optimizer;
  optimizer.groups = {{.match = "w1", .lr_scale = 0}};
  const Counted counted = count_alone(optimizer, {two_gradients()});
  EXPECT_DOUBLE_EQ(counted.shares[0].value(), 100.0 * 4 / 13);
}

TEST(LostUpdates, AMomentMovesAWeightWhoseGradientIsZero) {
  OptimizerConfig optimizer;
  const std::vector<std::vector<at::Tensor>> gradients = {{at::full({7}, 0.25)}, {at::zeros({7})}};
  optimizer.momentum = 0.9;
  EXPECT_EQ(count_alone(optimizer, gradients).shares[1], 0.0);
  optimizer.momentum = 0;
  EXPECT_EQ(count_alone(optimizer, gradients).shares[1], std::nullopt);
}

TEST(LostUpdates, OfALargeTensorAreOfEachThirtyFirstWeight) {
  at::Tensor first_half = at::full({5000}, 0.25);
  first_half.narrow(0, 0, 2500).fill_(kLost);
  for (const int ranks : {1, 2}) {
    test::run_ranks(ranks, [&](ProcessGroup& group) {
      Halves strategy;
      const Counted counted = count(strategy, group, {}, {{first_half}});
      ASSERT_EQ(counted.tensors.size(), 1u);
      EXPECT_EQ(counted.tensors[0].weights, 5000);
      EXPECT_EQ(counted.tensors[0].looked_at, 162);
      EXPECT_EQ(counted.tensors[0].lost, 81);
    });
  }
}

TEST(LostUpdates, ShowATensorThatAStrategyForgets) {
  test::run_ranks(1, [](ProcessGroup& group) {
    ForgetsToUpdateTheLast strategy;
    const std::vector<std::vector<at::Tensor>> gradients(2, {at::ones({15}), at::ones({7})});
    const Counted counted = count(strategy, group, {}, gradients);
    ASSERT_EQ(counted.tensors.size(), 1u);
    EXPECT_EQ(counted.tensors[0].parameter, "w1");
    EXPECT_TRUE(counted.tensors[0].stands_still());
  });
}

}  // namespace
}  // namespace ddprun
