// The attention plugins against a float64 loop: forward and gradients, causal or not, with a scale
// of one's own.
#include "ddprun/plugin/attention.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "ddprun/base/counter_hash.h"
#include "ddprun/base/error.h"
#include "support/plugin_library.h"

namespace ddprun {
namespace {

constexpr std::int64_t kBatch = 2, kHeads = 3, kTime = 6, kDim = 4;

at::Tensor random_tensor(std::uint64_t seed) {
  at::Tensor tensor = at::empty({kBatch, kHeads, kTime, kDim}, at::kDouble);
  auto* const values = tensor.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    values[i] = static_cast<double>(counter_hash(seed, i) >> 11) * 0x1p-52 - 1.0;
  }
  return tensor;
}

struct Reference {
  at::Tensor y, dq, dk, dv;
};

// softmax(scale q k^T) v and its gradients for d loss / d y = dy, of one (batch, head) after
// another.
Reference reference(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const at::Tensor& dy, bool causal, double scale) {
  Reference r{q.new_zeros(q.sizes()), q.new_zeros(q.sizes()), q.new_zeros(q.sizes()),
              q.new_zeros(q.sizes())};
  const auto element = [](const at::Tensor& x, std::int64_t matrix, std::int64_t row,
                          std::int64_t column) -> double& {
    return static_cast<double*>(x.data_ptr())[(matrix * kTime + row) * kDim + column];
  };
  for (std::int64_t m = 0; m < kBatch * kHeads; ++m)
    for (std::int64_t t = 0; t < kTime; ++t) {
      const std::int64_t visible = causal ? t + 1 : kTime;
      std::vector<double> p(visible), dp(visible);
      double sum = 0, mean = 0;
      for (std::int64_t s = 0; s < visible; ++s) {
        double score = 0;
        for (std::int64_t i = 0; i < kDim; ++i) score += element(q, m, t, i) * element(k, m, s, i);
        p[s] = std::exp(score * scale);
        sum += p[s];
      }
      for (std::int64_t s = 0; s < visible; ++s) {
        p[s] /= sum;
        for (std::int64_t i = 0; i < kDim; ++i) {
          element(r.y, m, t, i) += p[s] * element(v, m, s, i);
          element(r.dv, m, s, i) += p[s] * element(dy, m, t, i);
          dp[s] += element(dy, m, t, i) * element(v, m, s, i);
        }
        mean += p[s] * dp[s];
      }
      for (std::int64_t s = 0; s < visible; ++s)
        for (std::int64_t i = 0; i < kDim; ++i) {
          element(r.dq, m, t, i) += p[s] * (dp[s] - mean) * scale * element(k, m, s, i);
          element(r.dk, m, s, i) += p[s] * (dp[s] - mean) * scale * element(q, m, t, i);
        }
    }
  return r;
}

double largest_difference(const at::Tensor& ours, const at::Tensor& expected) {
  return (ours.to(at::kDouble) - expected).abs().max().item<double>();
}

class AttentionPlugin : public ::testing::TestWithParam<const char*> {
 protected:
  // Compares with the reference within `bound`, inputs and outputs in `dtype`.
  void check(const AttentionOptions& options, double scale, at::ScalarType dtype, double bound) {
    const auto attention = test::load_plugin<Attention>("attention", GetParam());
    // Laid out (batch, time, heads, head_dim), as the transformer hands them over. Rounded before
    // either side computes.
    const auto input = [dtype](std::uint64_t seed) {
      return random_tensor(seed).to(dtype).transpose(1, 2).contiguous().transpose(1, 2);
    };
    const auto wide = [](const at::Tensor& x) { return x.detach().to(at::kDouble).contiguous(); };
    const at::Tensor q = input(1).requires_grad_(true);
    const at::Tensor k = input(2).requires_grad_(true);
    const at::Tensor v = input(3).requires_grad_(true);
    const at::Tensor dy = input(4);
    const Reference expected =
        reference(wide(q), wide(k), wide(v), wide(dy), options.causal, scale);
    const at::Tensor y = attention->forward(q, k, v, options);
    EXPECT_EQ(y.scalar_type(), dtype);
    EXPECT_EQ(y.sizes(), q.sizes());
    y.backward(dy);
    EXPECT_LT(largest_difference(y, expected.y), bound);
    EXPECT_LT(largest_difference(q.grad(), expected.dq), bound);
    EXPECT_LT(largest_difference(k.grad(), expected.dk), bound);
    EXPECT_LT(largest_difference(v.grad(), expected.dv), bound);
  }
};

constexpr double kFp32Bound = 1e-6;
constexpr double kBf16Bound = 3e-2;  // bfloat16 rounds at 4e-3

TEST_P(AttentionPlugin, Causal) {
  check({.causal = true}, 1 / std::sqrt(4.0), at::kFloat, kFp32Bound);
}
TEST_P(AttentionPlugin, NotCausal) {
  check({.causal = false}, 1 / std::sqrt(4.0), at::kFloat, kFp32Bound);
}
TEST_P(AttentionPlugin, OwnScale) {
  check({.causal = true, .scale = 1.7}, 1.7, at::kFloat, kFp32Bound);
}
TEST_P(AttentionPlugin, Bfloat16) {
  check({.causal = true}, 1 / std::sqrt(4.0), at::kBFloat16, kBf16Bound);
}

// One object serves sequences of different lengths, longer and shorter.
TEST_P(AttentionPlugin, LengthMayChangeBetweenCalls) {
  const auto attention = test::load_plugin<Attention>("attention", GetParam());
  const at::Tensor q = random_tensor(1).to(at::kFloat);
  for (const std::int64_t time : {3, 6, 2}) {
    const at::Tensor part = q.narrow(2, 0, time);
    const at::Tensor y = attention->forward(part, part, part, {.causal = true});
    const at::Tensor whole = attention->forward(q, q, q, {.causal = true}).narrow(2, 0, time);
    EXPECT_LT(largest_difference(y, whole.to(at::kDouble)), kFp32Bound);
  }
}

TEST_P(AttentionPlugin, RunsInAnySetup) {
  const auto attention = test::load_plugin<Attention>("attention", GetParam());
  EXPECT_EQ(words_of(attention->unsupported({})), "");
}

INSTANTIATE_TEST_SUITE_P(All, AttentionPlugin, ::testing::Values("eager", "sdpa", "tiled"),
                         [](const auto& info) { return std::string(info.param); });

TEST(TiledAttention, RunsBackwardAgainOverARetainedGraphAlone) {
  const auto tiled = test::load_plugin<Attention>("attention", "tiled");
  const at::Tensor q = random_tensor(1).to(at::kFloat).requires_grad_(true);
  const at::Tensor dy = random_tensor(2).to(at::kFloat);
  const at::Tensor y = tiled->forward(q, q, q, {.causal = true});
  EXPECT_THROW(y.backward(dy, /*retain_graph=*/true, /*create_graph=*/true), Error);
  y.backward(dy, /*retain_graph=*/true);
  const at::Tensor once = q.grad().clone();
  y.backward(dy);
  EXPECT_TRUE(at::equal(q.grad(), 2 * once));
  EXPECT_THROW(y.backward(dy), Error) << "what backward needs is gone";
}

// Several tiles, the last one not full, on several threads; as many keys as queries, and more.
TEST(TiledAttention, MatchesEagerOverSeveralTiles) {
  const auto eager = test::load_plugin<Attention>("attention", "eager");
  const auto tiled = test::load_plugin<Attention>("attention", "tiled");
  const int threads = at::get_num_threads();
  for (const auto& [queries, keys, causal] :
       {std::tuple{300, 300, true}, std::tuple{300, 300, false}, std::tuple{129, 257, false}}) {
    at::set_num_threads(3);
    const auto run = [&, queries = queries, keys = keys, causal = causal](Attention& attention) {
      const auto input = [](std::int64_t time, std::uint64_t seed) {
        const at::Generator generator = at::detail::createCPUGenerator(seed);
        return at::randn({2, time, 3, 24}, generator).transpose(1, 2).requires_grad_(true);
      };
      const at::Tensor q = input(queries, 1);
      const at::Tensor k = input(keys, 2);
      const at::Tensor v = input(keys, 3);
      const at::Tensor y = attention.forward(q, k, v, {.causal = causal});
      y.backward(input(queries, 4).detach());
      return std::vector{y.detach(), q.grad(), k.grad(), v.grad()};
    };
    const auto expected = run(*eager);
    const auto got = run(*tiled);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double largest = expected[i].abs().max().item<double>();
      EXPECT_LT(largest_difference(got[i], expected[i].to(at::kDouble)), 3e-6 * largest) << i;
    }
    at::set_num_threads(threads);
  }
}

}  // namespace
}  // namespace ddprun
