// What a plugin throws names it; what is not its fault arrives as it is.
#include "ddprun/plugin/called.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>

#include <functional>
#include <new>
#include <stdexcept>

#include "ddprun/parallel/data_parallel.h"
#include "support/matchers.h"
#include "support/plain_sgd.h"
#include "support/thread_ranks.h"

namespace ddprun {
namespace {

struct Thrower final : Attention {
  explicit Thrower(std::function<void()> call) : call(std::move(call)) {}
  at::Tensor forward(const at::Tensor& q, const at::Tensor&, const at::Tensor&,
                     const AttentionOptions&) override {
    call();
    return q;
  }
  std::function<void()> call;
};

/// Calls an attention named "mine" that throws so.
void forward(const std::function<void()>& call) {
  const at::Tensor q = at::ones({1});
  Thrower thrower(call);
  thrower.called = "attention mine";
  called_forward(thrower, q, q, q, {});
}

std::string message_of(const std::function<void()>& call) {
  return test::error_of([&] { forward(call); });
}

TEST(Called, WordsOfAnyExceptionAreKept) {
  const std::string name = "a plugin failed: attention mine, forward()";
  EXPECT_THAT(message_of([] { throw std::logic_error("its words"); }),
              AllOf(HasSubstr(name), HasSubstr("its words")));
  EXPECT_THAT(message_of([] { TORCH_CHECK(false, "torch's words"); }),
              AllOf(HasSubstr(name), HasSubstr("torch's words")));
  EXPECT_THAT(message_of([] { throw 3; }), HasSubstr(name));
  EXPECT_THAT(message_of([] { throw Error({.what = "a fault", .where = "there"}); }),
              AllOf(StartsWith("a fault"), HasSubstr("attention mine, forward(): there")));
}

TEST(Called, WhatIsNotThePluginsFaultArrivesAsItIs) {
  EXPECT_THROW(forward([] { throw CommError({.what = "a peer is gone"}); }), CommError);
  EXPECT_THROW(forward([] { throw ConfigError({.what = "a key"}); }), ConfigError);
  EXPECT_THROW(forward([] { throw std::bad_alloc(); }), std::bad_alloc);
  EXPECT_NO_THROW(forward([] {}));
}

/// Its backward throws, if asked.
struct ThrowsInBackward final : Attention {
  explicit ThrowsInBackward(bool throws) : throws(throws) {}
  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const AttentionOptions&) override {
    const at::Tensor sum = q + k + v;
    sum.register_hook([this](const at::Tensor&) {
      if (throws) throw std::runtime_error("its words");
    });
    return sum * 2;
  }
  bool throws;
};

struct Transposes final : Attention {
  at::Tensor forward(const at::Tensor& q, const at::Tensor&, const at::Tensor&,
                     const AttentionOptions&) override {
    return q.transpose(1, 2);
  }
};

TEST(Called, AnAttentionsOutputHasTheShapeOfItsQueries) {
  Transposes mine;
  mine.called = "attention mine";
  const at::Tensor q = at::ones({1, 2, 3, 4});
  EXPECT_THAT(test::error_of<Error>([&] { called_forward(mine, q, q, q, {}); }),
              AllOf(HasSubstr("where: attention mine, forward()"), HasSubstr("got: [1, 3, 2, 4]"),
                    HasSubstr("expected: [1, 2, 3, 4]")));
}

TEST(Called, AnAttentionsBackwardIsNamedAndWhatComesAfterItIsNot) {
  for (const bool within : {true, false}) {
    ThrowsInBackward mine(within);
    mine.called = "attention mine";
    const at::Tensor x = at::ones({1}).set_requires_grad(true);
    const at::Tensor before = x * 3;
    if (!within) {
      x.register_hook([](const at::Tensor&) { throw std::runtime_error("another's words"); });
    }
    const at::Tensor out = called_forward(mine, before * 1, before * 1, before * 1, {});
    const std::string words = test::error_of<std::exception>(
        [&] { called_backward(mine, [&] { out.sum().backward(); }); });
    if (within) {
      EXPECT_THAT(
          words, AllOf(HasSubstr("attention mine, backward of forward()"), HasSubstr("its words")));
    } else {
      EXPECT_THAT(words, AllOf(HasSubstr("another's words"), Not(HasSubstr("mine"))));
    }
  }
}

TEST(Called, APluginWithoutANameLetsFailuresOutAsTheyAre) {
  const Thrower thrower([] {});
  EXPECT_THROW(called(thrower, "forward()", [] { throw std::logic_error("its words"); }),
               std::logic_error);
}

/// Throws in the call of that name. Computes products of its own and scales the loss.
struct FailingPrecision final : Precision, LossScaler {
  explicit FailingPrecision(const std::string& call) : fail_in(call) { called = "precision mine"; }
  void at_call(const std::string& call) const {
    if (call == fail_in) throw std::runtime_error("its words");
  }
  std::optional<Refusal> unsupported(const RunDescription&) const override {
    at_call("unsupported()");
    return {};
  }
  void convert(const std::vector<NamedTensor>&) override { at_call("convert()"); }
  PrecisionDtypes dtypes() const override {
    at_call("dtypes()");
    return {};
  }
  std::unique_ptr<Guard> forward_guard() override {
    at_call("forward_guard()");
    return nullptr;
  }
  Linear linear() override {
    return [this](const at::Tensor& x, const at::Tensor& weight) {
      at_call("linear()");
      return x * weight;
    };
  }
  LossScaler* loss_scaler() override { return this; }
  at::Tensor scale(const at::Tensor& loss) override {
    at_call("LossScaler::scale()");
    return loss;
  }
  GradientScale gradient_scale(const std::vector<at::Tensor>&) override {
    at_call("LossScaler::gradient_scale()");
    return {.overflow = at::zeros({})};
  }
  std::string fail_in;
};

/// The same of a strategy.
struct FailingStrategy final : Strategy, UnitListener {
  explicit FailingStrategy(const std::string& call) : fail_in(call) { called = "strategy mine"; }
  void at_call(const std::string& call) const {
    if (call == fail_in) throw std::runtime_error("its words");
  }
  Plan plan(const ParameterLayout&, int) const override {
    at_call("plan()");
    return {};
  }
  void setup(StrategyContext& context) override {
    at_call("setup()");
    Strategy::setup(context);
    listen(context, *this);
  }
  void before_forward(MicroBatch) override { at_call("before_forward()"); }
  void before_unit(Pass, int) override { at_call("before_unit()"); }
  void after_unit(Pass, int) override { at_call("after_unit()"); }
  void on_gradient(int) override { at_call("on_gradient()"); }
  void finish_backward() override { at_call("finish_backward()"); }
  void update() override { at_call("update()"); }
  std::string fail_in;
};

std::string step_with(ProcessGroup& group, Strategy& strategy, Precision& precision) {
  return test::error_of<Error>([&] {
    const at::Tensor weight = at::ones({1}).requires_grad_();
    DataParallel ddp({{"w", weight}}, group, strategy, precision, test::plain_sgd());
    ddp.backward(ddp.forward(
        [&] { return ddp.unit(0, [&] { return ddp.linear(at::ones({1}), weight).sum(); }); }));
    ddp.step(0.1, 0.0);
  });
}

TEST(Called, EachCallOfAStrategyAndAPrecisionIsNamed) {
  const auto expect_named = [](const std::string& words, const std::string& call) {
    EXPECT_THAT(words, AllOf(HasSubstr("a plugin failed: " + call), HasSubstr("its words")));
  };
  test::run_ranks(1, [&](ProcessGroup& group) {
    for (const char* call : {"plan()", "setup()", "before_forward()", "before_unit()",
                             "after_unit()", "on_gradient()", "finish_backward()", "update()"}) {
      FailingStrategy strategy(call);
      expect_named(step_with(group, strategy, test::fp32()), std::string("strategy mine, ") + call);
    }
    for (const char* call : {"unsupported()", "convert()", "dtypes()", "forward_guard()",
                             "linear()", "LossScaler::scale()", "LossScaler::gradient_scale()"}) {
      FailingStrategy strategy("");
      FailingPrecision precision(call);
      expect_named(step_with(group, strategy, precision), std::string("precision mine, ") + call);
    }
  });
}

}  // namespace
}  // namespace ddprun
