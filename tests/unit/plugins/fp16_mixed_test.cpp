// Precision fp16_mixed: how its scale grows and shrinks, that all ranks skip what overflows on one,
// and that the scale leaves no trace in the gradients.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "ddprun/config/options_io.h"
#include "ddprun/experiments/training/trainer.h"
#include "ddprun/experiments/training/training.h"
#include "ddprun/plugin/precision.h"
#include "ddprun/plugin/state.h"
#include "support/experiments.h"
#include "support/plain_sgd.h"
#include "support/plugin_library.h"
#include "support/plugin_registry.h"
#include "support/thread_ranks.h"

namespace ddprun::fp16_mixed_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The plugin, with options given as YAML text, for parameters on the CPU.
std::shared_ptr<Precision> make_fp16(const std::string& options) {
  const auto precision = test::load_plugin<Precision>("precision", "fp16_mixed");
  read_options(parse_yaml(options, "options"), "precision",
               [&](Options& declared) { precision->declare_options(declared); });
  precision->convert({{"w", at::ones({2})}});
  return precision;
}

/// One step whose largest gradient is `gradient`; returns the scale that its loss had.
double step(Precision& precision, double gradient) {
  LossScaler& scaler = *precision.loss_scaler();
  const double scale = scaler.scale(at::ones({})).item<double>();
  const GradientScale undo =
      scaler.gradient_scale({at::ones({2}), at::tensor({1.0, gradient}, at::kFloat)});
  EXPECT_EQ(undo.factor.item<double>() * scale, 1.0);
  EXPECT_EQ(undo.overflow.item<double>(), std::isfinite(gradient) ? 0.0 : 1.0);
  return scale;
}

TEST(Fp16Mixed, TheScaleGrowsAfterAnIntervalAndShrinksAfterAnOverflow) {
  const auto fp16 = make_fp16("{init_scale: 1024, growth_interval: 2}");
  EXPECT_EQ(step(*fp16, 1.0), 1024);
  EXPECT_EQ(step(*fp16, 2.0), 1024);
  EXPECT_EQ(step(*fp16, kInfinity), 2048) << "two steps without overflow";
  EXPECT_EQ(step(*fp16, 1.0), 1024) << "one with";
  EXPECT_EQ(step(*fp16, std::nan("")), 1024);
  EXPECT_EQ(step(*fp16, 1.0), 512) << "the interval begins anew";
  EXPECT_EQ(step(*fp16, 1.0), 512);
  EXPECT_EQ(step(*fp16, 1.0), 1024);
}

TEST(Fp16Mixed, FactorsAreOptions) {
  const auto fp16 =
      make_fp16("{init_scale: 8, growth_factor: 4, backoff_factor: 0.125, growth_interval: 1}");
  EXPECT_EQ(step(*fp16, 1.0), 8);
  EXPECT_EQ(step(*fp16, kInfinity), 32);
  EXPECT_EQ(step(*fp16, 1.0), 4);
}

/// What a plugin declared, for another one to go on from.
class Handed final : public State {
 public:
  explicit Handed(bool reads) : reads_(reads) {}
  void tensor(std::string_view name, at::Tensor& value) override {
    at::Tensor& kept = tensors[std::string(name)];
    if (reads_) {
      value.copy_(kept);
    } else {
      kept = value.clone();
    }
  }
  void number(std::string_view name, std::int64_t& value) override {
    std::int64_t& kept = numbers[std::string(name)];
    (reads_ ? value : kept) = reads_ ? kept : value;
  }

  std::map<std::string, at::Tensor> tensors;
  std::map<std::string, std::int64_t> numbers;

 private:
  bool reads_;
};

TEST(Fp16Mixed, GoesOnFromWhatItDeclares) {
  const std::vector<double> largest = {1.0, 1.0, kInfinity, 1.0, 1.0, 1.0};
  for (std::size_t cut = 1; cut < largest.size(); ++cut) {
    const auto whole = make_fp16("{init_scale: 1024, growth_interval: 2}");
    const auto rest = make_fp16("{init_scale: 1024, growth_interval: 2}");
    for (std::size_t i = 0; i < cut; ++i) step(*whole, largest[i]);
    Handed written(false), read(true);
    whole->declare_state(written);
    read.tensors = written.tensors;
    read.numbers = written.numbers;
    rest->declare_state(read);
    for (std::size_t i = cut; i < largest.size(); ++i) {
      EXPECT_EQ(step(*rest, largest[i]), step(*whole, largest[i])) << i << ", cut at " << cut;
    }
  }
}

// Within a step the scale is one, whatever the number of micro-batches; what ranks agreed on
// counts.
TEST(Fp16Mixed, MicroBatchesShareAScaleAndTheAgreementDecides) {
  const auto fp16 = make_fp16("{init_scale: 64}");
  for (int micro_batch = 0; micro_batch < 3; ++micro_batch) {
    EXPECT_EQ(fp16->loss_scaler()->scale(at::ones({})).item<double>(), 64);
  }
  const GradientScale undo = fp16->loss_scaler()->gradient_scale({at::ones({4})});
  EXPECT_EQ(undo.overflow.item<double>(), 0.0);
  undo.overflow.fill_(1.0);  // another rank's, by the all-reduce
  EXPECT_EQ(fp16->loss_scaler()->scale(at::ones({})).item<double>(), 32);
  EXPECT_EQ(fp16->loss_scaler()->scale(at::ones({})).item<double>(), 32);
}

TEST(Fp16Mixed, PowersOfTwoLeaveNoTrace) {
  at::manual_seed(3);
  const at::Tensor x = at::randn({16, 32});
  const at::Tensor weight = at::randn({8, 32}).requires_grad_();
  std::vector<at::Tensor> gradients;
  for (const std::string scale : {"1", "16", "256"}) {
    const auto fp16 = make_fp16("{init_scale: " + scale + "}");
    weight.mutable_grad().reset();
    at::Tensor loss;
    {
      const auto guard = fp16->forward_guard();
      const at::Tensor y = at::linear(x, weight);
      EXPECT_EQ(y.scalar_type(), at::kHalf);
      loss = y.to(at::kFloat).square().mean();
    }
    fp16->loss_scaler()->scale(loss).backward();
    EXPECT_EQ(weight.grad().scalar_type(), at::kFloat);
    gradients.push_back(weight.grad() *
                        fp16->loss_scaler()->gradient_scale({weight.grad()}).factor);
  }
  EXPECT_TRUE(at::equal(gradients[0], gradients[1]));
  EXPECT_TRUE(at::equal(gradients[0], gradients[2]));
}

// Rank 1 alone has gradients that are too large: its inputs are.
TEST(Fp16Mixed, AnOverflowOnOneRankSkipsTheStepOnAll) {
  test::run_ranks(2, [&](ProcessGroup& group) {
    const auto fp16 = make_fp16("{init_scale: 1024}");
    const at::Tensor weight = at::ones({4, 8}).requires_grad_();
    const auto strategy = test::strategy_of("{name: none, unsynchronized: true}");
    DataParallel ddp({{"weight", weight}}, group, *strategy, *fp16, test::plain_sgd());
    const auto run = [&](double input) {
      ddp.backward(ddp.forward([&] {
        return at::linear(at::full({2, 8}, input), weight).to(at::kFloat).sum();
      }));
      return ddp.step(0.5, 0.0).skipped();
    };
    group.take_records();
    EXPECT_TRUE(run(group.rank() == 1 ? 1000.0 : 0.01));
    EXPECT_TRUE(at::equal(weight, at::ones({4, 8})));
    const auto records = group.take_records();
    ASSERT_EQ(records.size(), 1U);
    EXPECT_EQ(records[0].label, "overflow");
    EXPECT_EQ(records[0].bytes, 4);
    ASSERT_EQ(ddp.planned().size(), 1U);
    EXPECT_EQ(ddp.planned()[0].bytes, records[0].bytes);
    EXPECT_EQ(fp16->loss_scaler()->scale(at::ones({})).item<double>(), 512);
    EXPECT_FALSE(run(0.01));
    EXPECT_FALSE(at::equal(weight, at::ones({4, 8})));
  });
}

TEST(Fp16Mixed, TrainsOnceTheScaleFits) {
  Experiment experiment = test::small_experiment(2);
  training(experiment).model.kernels = KernelSet::reference;
  experiment.plugin(PluginKind::strategy).name = "flat";
  experiment.plugin(PluginKind::precision).name = "fp16_mixed";
  experiment.plugin(PluginKind::precision).options =
      parse_yaml("{init_scale: 1e30, backoff_factor: 1e-4}", "options");
  experiment.plugin(PluginKind::attention).name = "sdpa";
  test::run_ranks(2, [&](ProcessGroup& group) {
    Trainer trainer(experiment, make_plugins(test::registry(), experiment), group);
    FlatBuffers& buffers = trainer.data_parallel().buffers();
    const at::Tensor before = buffers.parameters(buffers.all()).clone();
    EXPECT_EQ(trainer.step(0)[training().skipped], 1);
    EXPECT_TRUE(at::equal(buffers.parameters(buffers.all()), before));
    int skipped = 1;
    for (int index = 1; index < 12; ++index)
      skipped += static_cast<int>(trainer.step(index)[training().skipped]);
    EXPECT_GE(skipped, 6) << "1e30 to 1e6";
    EXPECT_LE(skipped, 7);
    EXPECT_FALSE(at::equal(buffers.parameters(buffers.all()), before));
  });
}

}  // namespace
}  // namespace ddprun::fp16_mixed_test
