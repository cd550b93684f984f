// What the core holds every strategy to whose ranks own parts: proof, norm, updates, units.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>

#include "ddprun/plugin/sharding.h"
#include "ddprun/proof/proof.h"
#include "support/experiments.h"
#include "support/matchers.h"
#include "support/plain_sgd.h"
#include "support/plugin_registry.h"
#include "support/proved_training.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

using test::registry;

/// One parameter a unit; each rank updates its slice.
class OwnsSlices : public Strategy {
 public:
  Plan plan(const ParameterLayout& layout, int rank) const override {
    Plan plan;
    for (const Unit& unit : layout.units()) plan.holding.owned.push_back(own(layout, unit, rank));
    return plan;
  }
  void finish_backward() override {
    for (const Unit& unit : context_->layout().units()) {
      slices(*context_).reduce_scatter_gradients(unit.range, "gradients").wait();
    }
  }
  void update() override {
    Strategy::update();
    for (const Unit& unit : context_->layout().units()) send(unit);
  }

 protected:
  virtual Range own(const ParameterLayout& layout, const Unit& unit, int rank) const {
    return layout.slice(unit.range, rank);
  }
  virtual void send(const Unit& unit) {
    slices(*context_).gather_parameters(unit.range, "slices").wait();
  }
};

class ForgetsToSend : public OwnsSlices {
  void send(const Unit& unit) override {
    if (unit.name != "b") OwnsSlices::send(unit);
  }
};

class OwnsTwice : public OwnsSlices {
  Range own(const ParameterLayout& layout, const Unit& unit, int) const override {
    return layout.slice(unit.range, 0);
  }
};

std::vector<NamedTensor> two_units() {
  return {{"a", at::ones({3, 5}).requires_grad_(), "a"},
          {"b", at::full({7}, 2.0).requires_grad_(), "b"}};
}

OptimizerConfig clipping() {
  OptimizerConfig config = test::plain_sgd();
  config.clip_norm = 0.5;
  return config;
}

/// Two units on one rank.
struct Training {
  Training(ProcessGroup& group, Strategy& strategy)
      : ddp(parameters, group, strategy, test::fp32(), clipping()), rank(group.rank()) {}

  /// A step with gradients that differ between ranks.
  void step() {
    ddp.backward(ddp.forward([&] {
      return (parameters[0].tensor.sum() * 2 + parameters[1].tensor.sum()) * (rank + 1);
    }));
    ddp.step(0.1, 0.5);
  }

  std::vector<NamedTensor> parameters = two_units();
  DataParallel ddp;
  int rank;
};

TEST(OwnedSlices, ProofAndClippingKnowWhoOwnsWhat) {
  test::run_ranks(2, [](ProcessGroup& group) {
    OwnsSlices strategy;
    Training training(group, strategy);
    EXPECT_EQ(check_initial_parameters(training.ddp, group).status, CheckStatus::passed);
    EXPECT_EQ(check_integer_gradients(training.ddp, group, {.micro_batches = 2}).status,
              CheckStatus::passed);
    training.step();
    EXPECT_EQ(check_parameters_equal(training.ddp, group).status, CheckStatus::passed);
    EXPECT_EQ(check_compute_copy(training.ddp, group).status, CheckStatus::passed);
    // The mean of both ranks is 1.5 times 2 and 1; its norm is clipped to 0.5.
    const double norm = 1.5 * std::sqrt(15 * 4.0 + 7 * 1.0);
    EXPECT_TRUE(
        at::allclose(training.parameters[1].tensor, at::full({7}, 2.0 - 0.1 * 1.5 * 0.5 / norm)));
    EXPECT_EQ(hash_parameters(training.ddp), hash_parameters(training.ddp));
  });
}

TEST(OwnedSlices, ParametersThatWereNotSentAreFound) {
  test::run_ranks(2, [](ProcessGroup& group) {
    ForgetsToSend strategy;
    Training training(group, strategy);
    training.step();
    const Check check = check_parameters_equal(training.ddp, group);
    EXPECT_EQ(check.status, CheckStatus::failed);
    EXPECT_THAT(check.detail, HasSubstr("b is not that of rank 0"));
    EXPECT_EQ(check_compute_copy(training.ddp, group).status, CheckStatus::failed);
  });
}

/// Rank 0 owns everything, and the others forget to say that they own nothing.
class ForgetsTheEmptyRange : public OwnsSlices {
  Plan plan(const ParameterLayout& layout, int rank) const override {
    Plan plan;
    if (rank == 0) plan.holding.owned = {layout.all()};
    return plan;
  }
};

/// The last elements are nobody's.
class ForgetsTheEnd : public OwnsSlices {
  Plan plan(const ParameterLayout& layout, int rank) const override {
    Plan plan;
    plan.holding.owned = {rank == 0 ? Range{0, layout.all().end - 16} : Range{}};
    return plan;
  }
};

TEST(OwnedSlices, PlansThatLeaveElementsOutAreRefused) {
  test::run_ranks(2, [](ProcessGroup& group) {
    OwnsTwice twice;
    ForgetsTheEmptyRange forgets;
    ForgetsTheEnd forgets_the_end;
    for (Strategy* const strategy :
         std::initializer_list<Strategy*>{&twice, &forgets, &forgets_the_end}) {
      EXPECT_THAT(test::error_of([&] { Training(group, *strategy); }),
                  HasSubstr("do not own each element once"));
    }
  });
}

TEST(OwnedSlices, ARankUpdatesNothingOfOthers) {
  class UpdatesAll : public OwnsSlices {
    void update() override { slices(*context_).update(context_->layout().all()); }
  };
  test::run_ranks(2, [](ProcessGroup& group) {
    UpdatesAll strategy;
    Training training(group, strategy);
    EXPECT_THAT(test::error_of([&] { training.step(); }), HasSubstr("that this rank does not own"));
  });
}

TEST(OwnedSlices, AModelMustSayWhichUnitItComputes) {
  test::run_ranks(2, [](ProcessGroup& group) {
    const Experiment experiment = test::sharding_experiment("{name: fsdp}", "fp32", 2);
    const auto strategy = make_strategy(registry(), experiment.plugin(PluginKind::strategy));
    Training training(group, *strategy);
    EXPECT_THAT(test::error_of([&] { training.step(); }), HasSubstr("call ddp.unit("));
  });
}

}  // namespace
}  // namespace ddprun
