// What DataParallel promises around a strategy: when it is called, what is refused, and how errors
// leave.
#include "ddprun/parallel/data_parallel.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <atomic>
#include <cmath>
#include <thread>
#include <type_traits>

#include "ddprun/base/clock.h"
#include "ddprun/plugin/run_description.h"
#include "support/matchers.h"
#include "support/plain_sgd.h"
#include "support/precision_of.h"
#include "support/scaling_precision.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

/// Notes its calls; throws in the call named `fail_in`.
class Spy : public Strategy, public UnitListener {
 public:
  void setup(StrategyContext& context) override {
    context_ = &context;
    listen(context, *this);
    note("setup");
  }
  void before_forward(MicroBatch micro_batch) override {
    note("before_forward " + std::to_string(micro_batch.index));
  }
  void on_gradient(int index) override { note("gradient " + std::to_string(index)); }
  void finish_backward() override { note("finish"); }
  void update() override {
    note("optimizer");
    Strategy::update();
  }

  std::vector<std::string> take() { return std::exchange(calls, {}); }
  std::vector<std::string> calls;
  std::string fail_in;

 private:
  void note(const std::string& call) {
    calls.push_back(call);
    if (call == fail_in) throw CommError({.what = "the spy fails in " + call});
  }
};

/// loss() = sum(first^2) / 2 + sum(second): gradients are `first` and ones.
struct Model {
  at::Tensor first = at::full({3}, 2.0F).requires_grad_();
  at::Tensor second = at::ones({2}).requires_grad_();
  std::vector<NamedTensor> parameters() const { return {{"first", first}, {"second", second}}; }
  at::Tensor loss() const {
    const at::Tensor squares = (first * first).sum() / 2;  // before the other, or C++ chooses
    return squares + second.sum();
  }
};

using test::plain_sgd;

class OneRank : public testing::Test {
 protected:
  DataParallel make() {
    return DataParallel(model.parameters(), *group, spy, test::fp32(), plain_sgd());
  }

  std::unique_ptr<ProcessGroup> group = connect_thread(make_thread_store(), 0, 1, {});
  Model model;
  Spy spy;
};

/// Whether DataParallel::backward() takes these.
template <class... Arguments>
concept BackwardTakes = requires(DataParallel& ddp, Arguments... arguments) {
  ddp.backward(arguments...);
};
static_assert(BackwardTakes<const Loss&>);
static_assert(!BackwardTakes<at::Tensor> && !BackwardTakes<at::Tensor, bool>,
              "a loss that forward() did not compute would be of fp32, whatever the precision");
static_assert(!std::is_constructible_v<Loss, at::Tensor, at::Tensor, at::Tensor, MicroBatch>);

TEST_F(OneRank, OnlyTheLastMicroBatchSynchronizes) {
  DataParallel ddp = make();
  EXPECT_THAT(spy.take(), ElementsAre("setup"));
  ddp.backward(ddp.forward([&] { return model.loss(); }, {0, 2}));
  EXPECT_THAT(spy.take(), ElementsAre("before_forward 0"));
  const BackwardMarks marks = ddp.backward(ddp.forward([&] { return model.loss(); }, {1, 2}));
  EXPECT_THAT(spy.take(), ElementsAre("before_forward 1", "gradient 0", "gradient 1", "finish"));
  EXPECT_LE(marks.begin, marks.last_gradient);
  EXPECT_LE(marks.last_gradient, marks.synchronized);
  EXPECT_TRUE(at::equal(model.first.grad(), at::full({3}, 2.0F)))
      << "the mean of both micro-batches";
  ddp.step(0.1, 0.0);
  EXPECT_THAT(spy.take(), ElementsAre("optimizer"));
  EXPECT_FALSE(model.first.grad().defined());
}

TEST_F(OneRank, AStepNeedsABackwardThatSynchronized) {
  DataParallel ddp = make();
  EXPECT_THROW(ddp.step(0.1, 0.0), Error) << "no backward";
  ddp.backward(ddp.forward([&] { return model.loss(); }, {0, 2}));
  EXPECT_THROW(ddp.step(0.1, 0.0), Error) << "gradients of this rank alone";
  ddp.backward(ddp.forward([&] { return model.loss(); }, {1, 2}));
  ddp.step(0.1, 0.0);
  EXPECT_THROW(ddp.step(0.1, 0.0), Error) << "the gradients are used up";
}

TEST_F(OneRank, ClippingScalesWhatTheStrategySynchronized) {
  DataParallel ddp = make();
  ddp.backward(ddp.forward([&] { return model.loss(); }));
  const StepOutcome outcome = ddp.step(1.0, 0.5);
  EXPECT_FALSE(outcome.skipped());
  const double norm = outcome.gradient_norm().value();
  EXPECT_DOUBLE_EQ(norm, std::sqrt(3 * 4.0 + 2 * 1.0));
  EXPECT_TRUE(at::allclose(model.second, at::full({2}, 1.0 - 0.5 / norm)));
}

TEST_F(OneRank, ASkippedStepLeavesParametersAndUnsetsGradients) {
  struct Overflowed : test::ScalingPrecision {
    using ScalingPrecision::ScalingPrecision;
    GradientScale gradient_scale(const std::vector<at::Tensor>&) override {
      return {.overflow = at::ones({})};
    }
  } overflowed(8);
  DataParallel ddp(model.parameters(), *group, spy, overflowed, plain_sgd());
  ddp.backward(ddp.forward([&] { return model.loss(); }));
  spy.take();
  const StepOutcome outcome = ddp.step(1.0, 0.5);
  EXPECT_TRUE(outcome.skipped());
  EXPECT_FALSE(outcome.gradient_norm().has_value());
  EXPECT_THAT(spy.take(), ElementsAre("optimizer"));
  EXPECT_TRUE(at::equal(model.second, at::ones({2})));
  EXPECT_FALSE(model.second.grad().defined());
}

/// The message of the Error that `run` throws.
using test::error_of;

TEST_F(OneRank, AParameterWithoutGradientIsAnError) {
  DataParallel ddp = make();
  EXPECT_THAT(error_of([&] { ddp.backward(ddp.forward([&] { return model.second.sum(); })); }),
              AllOf(HasSubstr("did not reach every parameter"), HasSubstr("no gradient of first"),
                    HasSubstr("one for each")));
}

/// Notes what DataParallel does with it; the loss times 8, products of linear layers times 3.
struct SpyPrecision : Precision, LossScaler {
  struct Switch : Guard {
    explicit Switch(bool& on) : on(on) { on = true; }
    ~Switch() override { on = false; }
    bool& on;
  };
  void convert(const std::vector<NamedTensor>& parameters) override {
    for (const auto& parameter : parameters) converted.push_back(parameter.name);
  }
  std::unique_ptr<Guard> forward_guard() override { return std::make_unique<Switch>(on); }
  Linear linear() override {
    if (!own_linear) return {};
    return [this](const at::Tensor& x, const at::Tensor& weight) {
      EXPECT_TRUE(on);
      return at::linear(x, weight) * 3;
    };
  }
  LossScaler* loss_scaler() override { return this; }
  at::Tensor scale(const at::Tensor& loss) override {
    EXPECT_FALSE(on) << "the scale is not computed in the precision's dtype";
    return loss * 8;
  }
  GradientScale gradient_scale(const std::vector<at::Tensor>&) override {
    return {.factor = at::full({}, 0.125), .overflow = at::zeros({})};
  }
  std::vector<std::string> converted;
  bool on = false, own_linear = false;
};

TEST_F(OneRank, ThePrecisionTakesPartInALoopOfOnesOwn) {
  SpyPrecision scaling;
  DataParallel ddp(model.parameters(), *group, spy, scaling, plain_sgd());
  EXPECT_THAT(scaling.converted, ElementsAre("first", "second"));
  for (const std::int64_t index : {0, 1}) {
    const Loss loss = ddp.forward(
        [&] {
          EXPECT_TRUE(scaling.on);
          return model.loss();
        },
        {index, 2});
    EXPECT_EQ(loss.value().item<double>(), 8.0) << "neither divided nor scaled";
    EXPECT_FALSE(loss.value().requires_grad());
    ddp.backward(loss);
  }
  EXPECT_TRUE(at::equal(model.first.grad(), at::full({3}, 16.0F))) << "the mean, scaled";
  ddp.step(1.0, 0.0);
  EXPECT_TRUE(at::equal(model.first, at::zeros({3}))) << "scaled back";
  const at::Tensor evaluated = ddp.evaluate([&] {
    EXPECT_TRUE(scaling.on);
    return model.loss();
  });
  EXPECT_FALSE(evaluated.requires_grad());
}

TEST_F(OneRank, APluginThatCannotRunHereIsRefused) {
  struct NoClipping : Precision {
    std::optional<Refusal> unsupported(const RunDescription& run) const override {
      if (run.optimizer.clip_norm == 0.0) return {};
      return Refusal{.reason = "it does not clip", .expected = "no clip_norm"};
    }
    void convert(const std::vector<NamedTensor>&) override { FAIL() << "it was not asked before"; }
  } no_clipping;
  OptimizerConfig clipping = plain_sgd();
  clipping.clip_norm = 1.0;
  EXPECT_THAT(
      error_of([&] { DataParallel(model.parameters(), *group, spy, no_clipping, clipping); }),
      AllOf(HasSubstr("a plugin cannot run in this experiment: it does not clip"),
            HasSubstr("1 rank on cpu"), HasSubstr("no clip_norm")));
}

TEST_F(OneRank, AModelMustAskAPrecisionThatComputesLinearLayers) {
  SpyPrecision precise;
  precise.own_linear = true;
  DataParallel ddp(model.parameters(), *group, spy, precise, plain_sgd());
  EXPECT_THAT(error_of([&] { ddp.forward([&] { return model.loss(); }); }),
              AllOf(HasSubstr("does not let the precision compute its linear layers"),
                    HasSubstr("ddp.linear(x, weight)")));
  const Loss loss = ddp.forward([&] {
    return ddp.linear(at::ones({1, 3}), model.first.view({1, 3})).sum() + model.second.sum();
  });
  EXPECT_EQ(loss.value().item<double>(), 3 * 6.0 + 2.0);
}

TEST_F(OneRank, DtypesThatDoNotFitTheParametersAreExplained) {
  test::PrecisionOf bfloat16 = test::in_bfloat16();
  DataParallel ddp(model.parameters(), *group, spy, bfloat16, plain_sgd());
  const auto product = [&](at::ScalarType dtype) {
    return at::linear(at::ones({1, 3}, dtype), model.first.view({1, 3})).sum() + model.second.sum();
  };
  EXPECT_THAT(error_of([&] { ddp.forward([&] { return product(at::kFloat); }); }),
              AllOf(HasSubstr("tensors of different dtypes"), HasSubstr("BFloat16"),
                    HasSubstr("x.to(ddp.parameter_dtype())")));
  ddp.backward(ddp.forward([&] { return product(ddp.parameter_dtype()); }));
}

TEST_F(OneRank, AGradientThatWasReplacedComesBackIntoTheBuffer) {
  DataParallel ddp = make();
  model.first.mutable_grad() = at::full({3}, 0.5);  // the user's own: backward adds to it
  ddp.backward(ddp.forward([&] { return model.loss(); }));
  EXPECT_TRUE(at::equal(ddp.buffers().gradients(ddp.buffers().range(1)), at::full({3}, 2.5)));
  ddp.drop_gradients();
  model.first.mutable_grad() = at::Tensor();  // as zero_grad() does
  ddp.backward(ddp.forward([&] { return model.loss(); }));
  EXPECT_TRUE(at::equal(ddp.buffers().gradients(ddp.buffers().range(1)), at::full({3}, 2.0)));
}

TEST_F(OneRank, WhatTheStrategyThrowsArrivesAsItIs) {
  for (const char* call : {"before_forward 0", "gradient 1", "finish", "optimizer"}) {
    Model fresh;
    Spy failing;
    DataParallel ddp(fresh.parameters(), *group, failing, test::fp32(), plain_sgd());
    failing.fail_in = call;
    EXPECT_THROW(
        {
          ddp.backward(ddp.forward([&] { return fresh.loss(); }));
          ddp.step(0.1, 0.0);
        },
        CommError)
        << call;
  }
}

TEST_F(OneRank, NoHookOutlivesItsOwner) {
  spy.fail_in = "setup";
  EXPECT_THROW(make(), CommError);
  model.loss().backward();  // of a model that DataParallel gave up on
  spy.fail_in.clear();
  { DataParallel ddp = make(); }
  spy.take();
  model.loss().backward();
  EXPECT_THAT(spy.take(), IsEmpty());
}

/// Starts every all-reduce from autograd's hook; the rank `failing` throws before the second.
class FailsMidway : public Strategy {
 public:
  explicit FailsMidway(int failing) : failing_(failing) {}
  void setup(StrategyContext& context) override { context_ = &context; }
  void on_gradient(int index) override {
    if (index == 1 && context_->group().rank() == failing_) throw std::runtime_error("out of luck");
    const ParameterLayout& layout = context_->layout();
    works_.push_back(context_->group().all_reduce(context_->gradients(layout.range(index)),
                                                  ReduceOp::avg, layout.name(index)));
  }
  void finish_backward() override {
    for (Work& work : works_) work.wait();
  }

 private:
  int failing_;
  std::vector<Work> works_;
};

/// One backward with the group, model and buffers of this rank; all are gone on return.
void backward_once(const c10::intrusive_ptr<c10d::Store>& store, int rank) {
  const auto group = connect_thread(store, rank, 2, {.timeout_s = 60});
  Model model;
  FailsMidway strategy(/*failing=*/1);
  DataParallel ddp(model.parameters(), *group, strategy, test::fp32(), plain_sgd());
  ddp.backward(ddp.forward([&] { return model.loss(); }));
}

TEST(TwoRanks, AFailureDuringBackwardEndsTheOtherRankSoon) {
  const auto store = make_thread_store();
  const std::int64_t begin_ns = now_ns();
  std::thread rank_1([&] { EXPECT_THROW(backward_once(store, 1), std::runtime_error); });
  EXPECT_THROW(backward_once(store, 0), CommError);
  rank_1.join();
  EXPECT_LT(seconds_since(begin_ns), 20) << "waited for the timeout";
}

TEST(TwoRanks, LeavingWithCollectivesUnderWayDoesNotWaitForThePeer) {
  const auto store = make_thread_store();
  std::atomic<bool> left = false;
  std::thread rank_0([&] {  // joins the group, takes its buffers, and joins no collective
    const auto group = connect_thread(store, 0, 2, {.timeout_s = 60});
    Model model;
    FailsMidway strategy(/*failing=*/1);
    const DataParallel ddp(model.parameters(), *group, strategy, test::fp32(), plain_sgd());
    while (!left) std::this_thread::yield();
  });
  const std::int64_t begin_ns = now_ns();
  EXPECT_THROW(backward_once(store, 1), std::runtime_error);
  EXPECT_LT(seconds_since(begin_ns), 20) << "waited for the timeout";
  left = true;
  rank_0.join();
}

}  // namespace
}  // namespace ddprun
