// The node of blocks that backward computes again: what autograd keeps, random numbers, what is
// refused; and that backward overwrites nothing which is not its own.
#include "ddprun/model/recompute.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include "ddprun/model/transformer.h"
#include "support/matchers.h"
#include "support/plugin_library.h"
#include "support/saved_tensor_hooks.h"

namespace ddprun::recompute_node_test {
namespace {

using test::load_plugin;

constexpr std::int64_t kVocab = 97;
constexpr std::int64_t kLayers = 5;

ModelConfig fused_model(const RecomputeConfig& recompute = {}) {
  return {.preset = "",
          .vocab_size = kVocab,
          .context_length = 24,
          .d_model = 48,
          .d_ff = 100,
          .layers = kLayers,
          .heads = 4,
          .recompute = recompute};
}

struct Tokens {
  at::Tensor ids = at::randint(kVocab, {3, 17}, at::kLong);
  at::Tensor targets = at::randint(kVocab, {3, 17}, at::kLong);
};

const AsInForward kPlainly = [](const std::function<at::Tensor()>& part) { return part(); };

TEST(RecomputeNode, SavesItsInputAloneWhereHooksSeeIt) {
  const auto attention = load_plugin<Attention>("attention", "flash");
  const Tokens tokens;
  const Transformer model(fused_model({.groups = 2}), *attention, 3);
  at::Tensor loss;
  const auto& counts =
      test::with_saved_tensor_hooks([&] { loss = model.loss(tokens.ids, tokens.targets); });
  EXPECT_EQ(counts.packed, 1 + 2 + 4) << "the embedding's ids, two streams, the head's";
  loss.backward();
  EXPECT_EQ(counts.unpacked, counts.packed);
}

TEST(RecomputeNode, ItsInputSurvivesAndMayNotBeWrittenTo) {
  const at::Tensor leaf = at::randn({8, 4}).requires_grad_();
  const at::Tensor stream = leaf * 1;
  const at::Tensor before = stream.detach().clone();
  const Blocks squares = [](const at::Tensor& in, std::int64_t first, std::int64_t last) {
    return in.pow(static_cast<double>(last - first)).mul_(2);
  };
  const at::Tensor out = recomputed(stream, {0, 2}, squares, kPlainly);
  out.sum().backward();
  EXPECT_TRUE(at::equal(stream, before));
  EXPECT_TRUE(at::allclose(leaf.grad(), 4 * before));

  const Blocks writes = [](const at::Tensor& in, std::int64_t, std::int64_t) {
    return in.mul_(2) + 1;
  };
  const at::Tensor other = leaf * 1;
  const at::Tensor wrong = recomputed(other, {0, 1}, writes, kPlainly);
  EXPECT_THROW(wrong.sum().backward(), std::exception) << "what it saved was written to";
}

TEST(RecomputeNode, DrawsTheSameRandomNumbersAgain) {
  const at::Tensor leaf = at::ones({1000}).requires_grad_();
  const Blocks noisy = [](const at::Tensor& in, std::int64_t first, std::int64_t last) {
    at::Tensor x = in;
    for (std::int64_t block = first; block < last; ++block) x = x * at::rand({1000});
    return x;
  };
  for (const bool halve : {false, true}) {
    leaf.mutable_grad().reset();
    const at::Tensor out = recomputed(leaf * 1, {0, 4, halve}, noisy, kPlainly);
    const at::Tensor next = at::rand({3});
    out.sum().backward();
    EXPECT_TRUE(at::allclose(leaf.grad(), out)) << "the derivative of x times c at 1 is c";
    EXPECT_FALSE(at::equal(at::rand({3}), next)) << "backward leaves the generator as it found it";
  }
}

TEST(RecomputeNode, CallsBlocksWithinTheForwardsSettings) {
  const at::Tensor leaf = at::ones({4}).requires_grad_();
  int within = 0;
  std::vector<bool> with_grad;
  const Blocks doubles = [&](const at::Tensor& in, std::int64_t, std::int64_t) {
    with_grad.push_back(c10::GradMode::is_enabled());
    return in * 2;
  };
  const AsInForward counted = [&](const std::function<at::Tensor()>& part) {
    ++within;
    return part();
  };
  const at::Tensor out = recomputed(leaf * 1, {0, 1}, doubles, counted);
  EXPECT_EQ(within, 0) << "the caller has switched on what there is";
  out.sum().backward();
  EXPECT_EQ(within, 1);
  EXPECT_THAT(with_grad, ElementsAre(false, true));
  const c10::NoGradGuard no_grad;
  EXPECT_FALSE(recomputed(leaf, {0, 1}, doubles, counted).requires_grad());
}

TEST(RecomputeNode, RefusesWhatItCannot) {
  const at::Tensor leaf = at::ones({4}).requires_grad_();
  const Blocks doubles = [](const at::Tensor& in, std::int64_t, std::int64_t) { return in * 2; };
  const auto loss = [&] { return recomputed(leaf * 1, {0, 1}, doubles, kPlainly).sum(); };
  EXPECT_THAT(test::error_of([&] { torch::autograd::grad({loss()}, {leaf}); }),
              StartsWith("backward for chosen inputs"));
  EXPECT_THAT(
      test::error_of([&] { torch::autograd::backward({loss()}, {}, true, /*create_graph=*/true); }),
      StartsWith("this layer has no second derivatives"));
  const at::Tensor twice = loss();
  torch::autograd::backward({twice}, {}, /*retain_graph=*/true);
  twice.backward();
  EXPECT_TRUE(at::equal(leaf.grad(), at::full({4}, 4.0F)));
  EXPECT_THROW(twice.backward(), Error) << "the graph is gone";
}

/// As behind blocks that are all frozen.
TEST(RecomputeNode, AStreamWithoutGradientLeavesTheParametersTheirs) {
  const at::Tensor weight = at::full({4}, 3.0F).requires_grad_();
  const Blocks scales = [&](const at::Tensor& in, std::int64_t, std::int64_t) {
    return in * weight;
  };
  const at::Tensor out = recomputed(at::full({4}, 5.0F), {0, 1}, scales, kPlainly);
  out.sum().backward();
  EXPECT_TRUE(at::equal(weight.grad(), at::full({4}, 5.0F)));
}

TEST(FusedBackward, OverwritesNothingThatSomeoneElseHolds) {
  const auto attention = load_plugin<Attention>("attention", "flash");
  const Tokens tokens;
  const Transformer model(fused_model(), *attention, 3);
  at::Tensor loss;
  auto& held = test::with_saved_tensor_hooks(
                   [&] { loss = model.loss(tokens.ids, tokens.targets) * 3; }, /*hold=*/true)
                   .held;
  std::vector<at::Tensor> before;
  for (const at::Tensor& tensor : held) before.push_back(tensor.clone());
  loss.backward();
  ASSERT_GT(held.size(), 13U * kLayers);
  for (std::size_t i = 0; i < held.size(); ++i) {
    EXPECT_TRUE(at::equal(held[i], before[i])) << "tensor " << i;
  }
  held.clear();
}

}  // namespace
}  // namespace ddprun::recompute_node_test
