// What a plugin throws names it; what is not its fault arrives as it is.
#include "ddprun/parallel/named_plugins.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <stdexcept>

#include "ddprun/base/error.h"
#include "support/error_of.h"

namespace ddprun {
namespace {

using testing::AllOf;
using testing::HasSubstr;

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
  with_named_failures(std::make_shared<Thrower>(call), "mine")->forward(q, q, q, {});
}

std::string message_of(const std::function<void()>& call) {
  return test::error_of([&] { forward(call); });
}

TEST(NamedPlugins, WordsOfAnyExceptionAreKept) {
  const std::string name = "a plugin failed: attention mine, forward()";
  EXPECT_THAT(message_of([] { throw std::logic_error("its words"); }),
              AllOf(HasSubstr(name), HasSubstr("its words")));
  EXPECT_THAT(message_of([] { TORCH_CHECK(false, "torch's words"); }),
              AllOf(HasSubstr(name), HasSubstr("torch's words")));
  EXPECT_THAT(message_of([] { throw 3; }), HasSubstr(name));
  EXPECT_THAT(message_of([] { throw Error({.what = "a fault", .where = "there"}); }),
              AllOf(testing::StartsWith("a fault"), HasSubstr("attention mine, forward(): there")));
}

TEST(NamedPlugins, WhatIsNotThePluginsFaultArrivesAsItIs) {
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

TEST(NamedPlugins, AnAttentionsBackwardIsNamedAndWhatComesAfterItIsNot) {
  for (const bool within : {true, false}) {
    const auto mine = with_named_failures(std::make_shared<ThrowsInBackward>(within), "mine");
    const at::Tensor x = at::ones({1}).set_requires_grad(true);
    const at::Tensor before = x * 3;
    if (!within) {
      x.register_hook([](const at::Tensor&) { throw std::runtime_error("another's words"); });
    }
    const at::Tensor out = mine->forward(before * 1, before * 1, before * 1, {});
    const std::string words = test::error_of<std::exception>(
        [&] { backward_with_names(*mine, [&] { out.sum().backward(); }); });
    if (within) {
      EXPECT_THAT(
          words, AllOf(HasSubstr("attention mine, backward of forward()"), HasSubstr("its words")));
    } else {
      EXPECT_THAT(words, AllOf(HasSubstr("another's words"), testing::Not(HasSubstr("mine"))));
    }
  }
}

/// Computes products of its own and scales the loss.
struct Doubled final : Precision, LossScaler {
  Linear linear() override {
    return [](const at::Tensor& x, const at::Tensor&) {
      if (x.numel() > 1) throw std::runtime_error("too large");
      return x + x;
    };
  }
  LossScaler* loss_scaler() override { return this; }
  at::Tensor scale(const at::Tensor& loss) override { return linear()(loss, loss); }
  GradientScale gradient_scale(const std::vector<at::Tensor>&) override {
    throw std::runtime_error("no gradients");
  }
  PrecisionDtypes dtypes() const override {
    return {.buffers = {.reduce = at::kBFloat16}, .products = "tf32"};
  }
};

TEST(NamedPlugins, APrecisionsProductIsNamedToo) {
  const auto precision = with_named_failures(std::make_shared<Doubled>(), "twice");
  EXPECT_EQ(precision->dtypes().buffers.reduce, at::kBFloat16);
  EXPECT_EQ(precision->dtypes().product_format(), "tf32");
  const Precision::Linear product = precision->linear();
  EXPECT_EQ(product(at::ones({1}), at::ones({1})).item<float>(), 2.0F);
  EXPECT_THROW(product(at::ones({2}), at::ones({1})), Error);
  EXPECT_FALSE(with_named_failures(std::make_shared<Precision>(), "plain")->linear())
      << "a precision without a product of its own has none";
}

TEST(NamedPlugins, ALossScalersCallsAreNamedToo) {
  const auto precision = with_named_failures(std::make_shared<Doubled>(), "twice");
  LossScaler* const scaler = precision->loss_scaler();
  ASSERT_NE(scaler, nullptr);
  EXPECT_EQ(scaler->scale(at::ones({1})).item<float>(), 2.0F);
  EXPECT_THAT(test::error_of([&] { scaler->scale(at::ones({2})); }),
              AllOf(HasSubstr("a plugin failed: precision twice, LossScaler::scale()"),
                    HasSubstr("too large")));
  EXPECT_THAT(
      test::error_of([&] { scaler->gradient_scale({}); }),
      AllOf(HasSubstr("precision twice, LossScaler::gradient_scale()"), HasSubstr("no gradients")));
  EXPECT_EQ(with_named_failures(std::make_shared<Precision>(), "plain")->loss_scaler(), nullptr);
}

}  // namespace
}  // namespace ddprun
