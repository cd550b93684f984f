// Parameters that are gathered in the next forward: the same training, and nothing is read before
// it is there.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>
#include <cstdint>
#include <map>

#include "ddprun/base/clock.h"
#include "ddprun/experiments/training/trainer.h"
#include "ddprun/optim/flat_parts.h"
#include "ddprun/proof/proof.h"
#include "support/matchers.h"
#include "support/passing_strategy.h"
#include "support/plain_sgd.h"
#include "support/plugin_registry.h"
#include "support/proved_training.h"
#include "support/thread_ranks.h"

namespace ddprun::gathered_in_forward_test {
namespace {

using test::registry;

constexpr int kRanks = 2;

Experiment experiment_of(const std::string& precision, bool under_forward) {
  return test::sharding_experiment(
      under_forward ? "{name: zero1, gather_under_forward: true, bucket_mb: 0.01}"
                    : "{name: zero1, bucket_mb: 0.01}",
      precision, kRanks);
}

test::ProvedTraining train(const Experiment& experiment, ProcessGroup& group, Strategy& strategy) {
  Trainer trainer(experiment, test::plugins_with(strategy, registry(), experiment), group);
  return test::train_and_prove(trainer, group, 4);
}

/// After an update overwrites with NaN whatever the model would read of other ranks' slices.
class PoisonsWhatIsOld : public test::PassingStrategy {
 public:
  using PassingStrategy::PassingStrategy;
  void update() override {
    PassingStrategy::update();
    FlatBuffers& buffers = dynamic_cast<BufferContext&>(*context_).buffers();
    for (int index = 0; index < buffers.count(); ++index) {
      const Range range = buffers.range(index);
      const Unit& unit = buffers.units()[buffers.unit_of(index)];
      if (read_dtype(buffers, index) != unit.dtype) continue;  // norms are gathered in the update
      at::Tensor old = at::ones({range.size()}, at::kBool);
      for (const Range& own : buffers.owned(range)) {
        old.narrow(0, own.begin - range.begin, own.size()).fill_(false);
      }
      for (const at::Tensor& read : buffers.read(index)) {
        read.masked_fill_(old, std::nanf(""));
        ++poisoned;
      }
    }
  }
  int poisoned = 0;
};

struct Change {
  const char* name;
  void (*make)(Experiment&);
};

/// Precision, and what else is changed.
class UnderForward : public testing::TestWithParam<std::tuple<const char*, Change>> {};

TEST_P(UnderForward, TrainsAsParametersDoThatAreGatheredInTheUpdate) {
  const auto& [precision, change] = GetParam();
  Experiment before = experiment_of(precision, false), under = experiment_of(precision, true);
  change.make(before);
  change.make(under);
  test::run_ranks(kRanks, [&](ProcessGroup& group) {
    const auto plain = make_strategy(registry(), before.plugin(PluginKind::strategy));
    const auto expected = train(before, group, *plain);
    PoisonsWhatIsOld poisons(make_strategy(registry(), under.plugin(PluginKind::strategy)));
    test::expect_equal(train(under, group, poisons), expected);
    EXPECT_GT(poisons.poisoned, 0);
  });
}

INSTANTIATE_TEST_SUITE_P(
    GatheredInForward, UnderForward,
    testing::Combine(
        testing::Values("fp32", "bf16_mixed"),
        testing::Values(
            Change{"plain", [](Experiment&) {}},
            Change{"reference",
                   [](Experiment& e) { training(e).model.kernels = KernelSet::reference; }},
            Change{"accumulate", [](Experiment& e) { training(e).train.accumulate = 2; }},
            Change{"overlap", [](Experiment& e) { training(e).optimizer.overlap = true; }},
            Change{"clip", [](Experiment& e) { training(e).optimizer.clip_norm = 0.1; }},
            Change{"tied", [](Experiment& e) { training(e).model.tie_embeddings = true; }},
            Change{"frozen",
                   [](Experiment& e) {
                     training(e).model.frozen = {"token*", "layers.1.*"};
                   }},
            Change{"layers", [](Experiment& e) { training(e).model.unit = UnitSize::layer; }},
            Change{"recompute",
                   [](Experiment& e) {
                     training(e).model.recompute.form = RecomputeForm::every_block;
                   }})),
    [](const auto& test) {
      return std::string(std::get<0>(test.param)) + "_" + std::get<1>(test.param).name;
    });

/// When each unit was about to be used in the last forward.
class NotesUnits : public test::PassingStrategy {
 public:
  using PassingStrategy::PassingStrategy;
  void before_unit(Pass pass, int unit) override {
    if (pass == Pass::forward) begun_ns[unit] = now_ns();
    PassingStrategy::before_unit(pass, unit);
  }
  std::map<int, std::int64_t> begun_ns;
};

TEST(GatheredInForward, AUnitWaitsForItsBucketAlone) {
  Experiment experiment = experiment_of("fp32", true);
  experiment.plugin(PluginKind::strategy) =
      test::strategy_choice("{name: zero1, gather_under_forward: true, bucket_mb: 0}");
  test::run_ranks(kRanks, [&](ProcessGroup& group) {
    NotesUnits notes(make_strategy(registry(), experiment.plugin(PluginKind::strategy)));
    Trainer trainer(experiment, test::plugins_with(notes, registry(), experiment), group);
    trainer.step(0);
    trainer.step(1);
    int unit = 0;  // gathered in the order in which forward uses them
    for (const CollectiveRecord& record : trainer.last_records()) {
      if (record.kind != CollectiveKind::all_gather) continue;
      EXPECT_LE(record.enqueue_ns, notes.begun_ns.at(1)) << "all begin before the second unit";
      EXPECT_GE(record.wait_begin_ns, notes.begun_ns.at(unit)) << unit;
      if (notes.begun_ns.contains(unit + 1)) {
        EXPECT_LE(record.wait_end_ns, notes.begun_ns.at(unit + 1)) << unit;
      }
      ++unit;
    }
    EXPECT_EQ(unit, 5);
  });
}

TEST(GatheredInForward, StepsWithoutAnUpdateGatherAsPlanned) {
  Experiment experiment = experiment_of("bf16_mixed", true);
  training(experiment).train.measure = StepExtent::forward_backward;
  test::run_ranks(kRanks, [&](ProcessGroup& group) {
    Trainer trainer(experiment, make_plugins(registry(), experiment), group);
    for (int step = 0; step < 3; ++step) {
      trainer.step(step);
      EXPECT_EQ(compare_with_plan(trainer.last_records(), trainer.planned()), "");
    }
  });
}

TEST(GatheredInForward, AModelOfOneUnitNeedsNoWord) {
  const Experiment experiment = experiment_of("fp32", true);
  test::run_ranks(kRanks, [&](ProcessGroup& group) {
    const auto strategy = make_strategy(registry(), experiment.plugin(PluginKind::strategy));
    const at::Tensor w = at::full({5}, 2.0).requires_grad_();
    DataParallel ddp({{"w", w}}, group, *strategy, test::fp32(), test::plain_sgd());
    const auto loss = [&] { return w.sum() * (group.rank() + 1); };
    ddp.backward(ddp.forward(loss));
    ddp.step(0.5, 0.0);
    // 2 - 0.5 (1 + 2) / 2
    EXPECT_FLOAT_EQ(ddp.evaluate([&] { return w.sum(); }).item<float>(), 5 * 1.25F);
  });
}

TEST(GatheredInForward, ParametersThatAreNeverGatheredAreFound) {
  class GathersNothing : public test::PassingStrategy {
   public:
    using PassingStrategy::PassingStrategy;
    void before_unit(Pass /*pass*/, int /*unit*/) override {}
  };
  const Experiment experiment = experiment_of("fp32", true);
  test::run_ranks(kRanks, [&](ProcessGroup& group) {
    GathersNothing forgets(make_strategy(registry(), experiment.plugin(PluginKind::strategy)));
    Trainer trainer(experiment, test::plugins_with(forgets, registry(), experiment), group);
    trainer.step(0);
    EXPECT_THAT(compare_with_plan(trainer.last_records(), trainer.planned()),
                HasSubstr("planned but did not run"));
    EXPECT_EQ(check_parameters_equal(trainer.data_parallel(), group).status, CheckStatus::failed);
  });
}

}  // namespace
}  // namespace ddprun::gathered_in_forward_test
