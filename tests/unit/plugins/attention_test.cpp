// The attention plugins: what all of them take, and flash at any size, on threads, in memory.
#include "ddprun/plugin/attention.h"
#include "ddprun/base/torch_versions.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "ddprun/base/counter_hash.h"
#include "ddprun/device/device.h"
#include "ddprun/kernels/attention/flash_of_tensors.h"
#include "ddprun/kernels/side_by_side.h"
#include "ddprun/plugin/run_description.h"
#include "ddprun/proof/attention/attention_proof.h"
#include "support/matchers.h"
#include "support/plugin_library.h"
#include "support/saved_tensor_hooks.h"

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

double largest_difference(const at::Tensor& ours, const at::Tensor& expected) {
  return (ours.to(at::kDouble) - expected).abs().max().item<double>();
}

/// That each computes attention, causal or not, in each dtype: attention_kind_test.cpp.
class AttentionPlugin : public ::testing::TestWithParam<const char*> {
 protected:
  const std::shared_ptr<Attention> attention_ =
      test::load_plugin<Attention>("attention", GetParam());
};

constexpr double kFp32Bound = 1e-6;

TEST_P(AttentionPlugin, AScaleOfOnesOwnIsOneOfTheQueries) {
  const auto outcome = [this](double of_queries, const AttentionOptions& options) {
    const auto input = [](std::uint64_t seed) {
      return random_tensor(seed).to(at::kFloat).requires_grad_(true);
    };
    const at::Tensor q = input(1), k = input(2), v = input(3);
    const at::Tensor y = attention_->forward(q * of_queries, k, v, options);
    y.backward(random_tensor(4).to(at::kFloat));
    return std::vector{y.detach(), q.grad(), k.grad(), v.grad()};
  };
  const auto own = outcome(1, {.causal = true, .scale = 1.7});
  const auto expected = outcome(1.7 * std::sqrt(double{kDim}), {.causal = true});
  for (std::size_t i = 0; i < own.size(); ++i) {
    EXPECT_LT(largest_difference(own[i], expected[i].to(at::kDouble)), kFp32Bound) << i;
  }
}

// One object serves sequences of different lengths, longer and shorter.
TEST_P(AttentionPlugin, LengthMayChangeBetweenCalls) {
  const at::Tensor q = random_tensor(1).to(at::kFloat);
  const at::Tensor first = q.narrow(2, 0, 3);
  const at::Tensor of_more_keys = attention_->forward(first, q, q, {.causal = true});
  for (const std::int64_t time : {3, 6, 2}) {
    const at::Tensor part = q.narrow(2, 0, time);
    const at::Tensor y = attention_->forward(part, part, part, {.causal = true});
    const at::Tensor whole = attention_->forward(q, q, q, {.causal = true}).narrow(2, 0, time);
    EXPECT_LT(largest_difference(y, whole.to(at::kDouble)), kFp32Bound);
    if (time != 3) continue;
    EXPECT_LT(largest_difference(of_more_keys, whole.to(at::kDouble)), kFp32Bound);
  }
}

/// Where documents of 1, 8, 15 ... queries begin, and of sequence 1 one query later; and one at the
/// last key of a tile.
at::Tensor first_keys_of(std::int64_t batch, std::int64_t queries) {
  at::Tensor all = at::empty({batch, queries}, at::kInt);
  auto* const first_keys = all.mutable_data_ptr<std::int32_t>();
  for (std::int64_t b = 0; b < batch; ++b) {
    std::int64_t begin = 0, length = 1 + b;
    for (std::int64_t query = 0; query < queries; ++query) {
      if (query == begin + length || query == 127) begin = query, length += 7;
      first_keys[b * queries + query] = static_cast<std::int32_t>(begin);
    }
  }
  return all;
}

// Against float64, over many tiles of queries and of keys, on several threads.
TEST_P(AttentionPlugin, KeepsDocumentsApart) {
  ASSERT_TRUE(attention_->takes_documents());
  for (const auto type : {AttentionType::float32, AttentionType::bfloat16}) {
    for (const auto& [length, keys] : {std::pair{300, 300}, {129, 200}, {64, 64}, {1, 1}}) {
      const AttentionConfig config{
          .batch = 2, .heads = 3, .length = length, .keys = keys, .head_dim = 24, .dtype = type};
      EXPECT_EQ(
          find_wrong_attention(config, *attention_, cpu_device(), error_bounds(type).times(1. / 3),
                               1, {}, first_keys_of(config.batch, length)),
          "")
          << length << " queries, " << keys << " keys";
    }
  }
}

TEST_P(AttentionPlugin, RunsInAnySetup) { EXPECT_EQ(words_of(attention_->unsupported({})), ""); }

INSTANTIATE_TEST_SUITE_P(All, AttentionPlugin, ::testing::Values("eager", "sdpa", "flash"),
                         [](const auto& info) { return std::string(info.param); });

// A captured step reads it again where it read it first, whatever ran in between.
TEST(EagerAttention, KeepsItsMaskWhereItLiesForShorterTexts) {
  const auto eager = test::load_plugin<Attention>("attention", "eager");
  const at::Tensor q = random_tensor(1).to(at::kFloat).requires_grad_(true);
  const auto mask_of = [&](std::int64_t time) {
    const at::Tensor part = q.narrow(2, 0, time);
    test::HookCounts& saved = test::with_saved_tensor_hooks(
        [&] { eager->forward(part, part, part, {.causal = true}); }, /*hold=*/true);
    const std::vector<at::Tensor> held = std::exchange(saved.held, {});
    return *std::ranges::find(held, at::kBool, &at::Tensor::scalar_type);
  };
  const at::Tensor first = mask_of(kTime);
  for (const std::int64_t time : {kTime - 2, kTime}) {
    EXPECT_EQ(mask_of(time).const_data_ptr(), first.const_data_ptr()) << time;
  }
}

TEST(FlashAttentionNode, RunsBackwardAgainOverARetainedGraphAlone) {
  const auto flash = test::load_plugin<Attention>("attention", "flash");
  const at::Tensor q = random_tensor(1).to(at::kFloat).requires_grad_(true);
  const at::Tensor dy = random_tensor(2).to(at::kFloat);
  const at::Tensor y = flash->forward(q, q, q, {.causal = true});
  EXPECT_THROW(y.backward(dy, /*retain_graph=*/true, /*create_graph=*/true), Error);
  y.backward(dy, /*retain_graph=*/true);
  const at::Tensor once = q.grad().clone();
  y.backward(dy);
  EXPECT_TRUE(at::equal(q.grad(), 2 * once));
  EXPECT_THROW(y.backward(dy), Error) << "what backward needs is gone";
}

struct Sizes {
  std::int64_t batch, heads, queries, keys, head_dim;
  bool causal;
  bool documents = false;
};

/// Whole tiles and not, one key, more queries than keys and fewer, widths padded inside.
constexpr Sizes kSizes[] = {{1, 1, 1, 1, 8, true},       {2, 3, 300, 300, 24, true},
                            {1, 2, 300, 300, 5, false},  {1, 2, 64, 128, 64, true},
                            {2, 1, 129, 257, 16, false}, {1, 3, 200, 70, 40, true},
                            {1, 1, 70, 200, 33, true},   {1, 1, 1000, 1000, 64, true},
                            {1, 2, 65, 63, 256, true},   {1, 1, 257, 130, 100, false}};

at::Tensor heads_of(std::int64_t time, const Sizes& sizes, at::ScalarType dtype,
                    std::uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randn({sizes.batch, time, sizes.heads, sizes.head_dim}, generator)
      .to(dtype)
      .transpose(1, 2);
}

/// Output and gradients. The inputs are rounded to `dtype` and computed with in `compute`.
std::vector<at::Tensor> outcome(Attention& attention, const Sizes& sizes, at::ScalarType dtype,
                                at::ScalarType compute) {
  const auto input = [&](std::int64_t time, std::uint64_t seed) {
    return heads_of(time, sizes, dtype, seed).to(compute);
  };
  const at::Tensor q = input(sizes.queries, 1).requires_grad_(true);
  const at::Tensor k = input(sizes.keys, 2).requires_grad_(true);
  const at::Tensor v = input(sizes.keys, 3).requires_grad_(true);
  AttentionOptions options = {.causal = sizes.causal};
  if (sizes.documents) options.first_keys = first_keys_of(sizes.batch, sizes.queries);
  const at::Tensor y = attention.forward(q, k, v, options);
  y.backward(input(sizes.queries, 4));
  return {y.detach(), q.grad(), k.grad(), v.grad()};
}

/// The largest errors of output and gradients, relative to the largest value.
std::vector<double> errors(const std::vector<at::Tensor>& got,
                           const std::vector<at::Tensor>& expected) {
  std::vector<double> all;
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].sizes(), expected[i].sizes());
    const double largest = std::max(1e-3, expected[i].abs().max().item<double>());
    all.push_back(largest_difference(got[i], expected[i]) / largest);
  }
  return all;
}

double mean_error(const at::Tensor& got, const at::Tensor& expected) {
  return ((got.to(at::kDouble) - expected).norm() / expected.norm()).item<double>();
}

class FlashAttention : public ::testing::Test {
 protected:
  std::shared_ptr<Attention> eager_ = test::load_plugin<Attention>("attention", "eager");
  std::shared_ptr<Attention> sdpa_ = test::load_plugin<Attention>("attention", "sdpa");
  std::shared_ptr<Attention> flash_ = test::load_plugin<Attention>("attention", "flash");
};

TEST_F(FlashAttention, MatchesDoubleAtAnySize) {
  at::set_num_threads(3);
  for (const Sizes& sizes : kSizes) {
    SCOPED_TRACE(::testing::Message() << sizes.queries << " queries, " << sizes.keys << " keys, "
                                      << sizes.head_dim << " wide, causal " << sizes.causal);
    for (const auto& [dtype, bound] : {std::pair{at::kFloat, 3e-6}, {at::kBFloat16, 2e-2}}) {
      const auto expected = outcome(*eager_, sizes, dtype, at::kDouble);
      const auto got = outcome(*flash_, sizes, dtype, dtype);
      EXPECT_THAT(errors(got, expected), Each(::testing::Lt(bound))) << dtype;
    }
  }
}

// Of each result the errors of all values, and of all results the largest error.
TEST_F(FlashAttention, IsAsCloseToDoubleAsPyTorchs) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    double ours = 0.0;
    double theirs = 0.0;
    for (const Sizes& sizes : {Sizes{1, 2, 512, 512, 64, true},
                               {1, 1, 1024, 1024, 128, true},
                               {1, 2, 500, 500, 64, false}}) {
      const auto expected = outcome(*eager_, sizes, dtype, at::kDouble);
      const auto flash = outcome(*flash_, sizes, dtype, dtype);
      const auto sdpa = outcome(*sdpa_, sizes, dtype, dtype);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_LE(mean_error(flash[i], expected[i]), 1.01 * mean_error(sdpa[i], expected[i])) << i;
      }
      ours = std::max(ours, std::ranges::max(errors(flash, expected)));
      theirs = std::max(theirs, std::ranges::max(errors(sdpa, expected)));
    }
    EXPECT_LE(ours, theirs) << dtype;
  }
}

// One head, too: its tiles are spread over the threads.
TEST_F(FlashAttention, BitsDoNotDependOnThreads) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const Sizes& sizes : {Sizes{1, 1, 700, 700, 16, true},
                               {1, 3, 300, 500, 16, false},
                               {2, 1, 700, 700, 16, true, true}}) {
      at::set_num_threads(1);
      const auto one = outcome(*flash_, sizes, dtype, dtype);
      at::set_num_threads(4);
      const auto four = outcome(*flash_, sizes, dtype, dtype);
      for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i], four[i])) << i;
    }
  }
}

// Any matrix of a tile by all queries, or by all keys, would be 16 MB or more.
TEST_F(FlashAttention, MemoryDoesNotGrowWithTheLengths) {
  constexpr std::int64_t kLong = 65536;
  constexpr std::int64_t kShort = 512;
  constexpr std::int64_t kMegabyte = 1 << 20;
  at::set_num_threads(2);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const Sizes& sizes :
         {Sizes{1, 1, kLong, kShort, 16, true}, {1, 1, kShort, kLong, 16, false}}) {
      const auto counting = cpu_device().count_memory();
      const at::Tensor q = heads_of(sizes.queries, sizes, dtype, 1).requires_grad_(true);
      const at::Tensor k = heads_of(sizes.keys, sizes, dtype, 2).requires_grad_(true);
      const at::Tensor v = heads_of(sizes.keys, sizes, dtype, 3).requires_grad_(true);
      const at::Tensor dy = heads_of(sizes.queries, sizes, dtype, 4);
      cpu_device().reset_memory();
      const std::int64_t before = cpu_device().memory().allocated_bytes;
      flash_->forward(q, k, v, {.causal = sizes.causal}).backward(dy);
      const std::int64_t peak = cpu_device().memory().peak_allocated_bytes - before;
      // The output, the gradients, and float32 for each query: log-sum-exp and delta.
      const std::int64_t wanted =
          2 * static_cast<std::int64_t>(q.nbytes() + k.nbytes()) + 8 * sizes.queries;
      // In bfloat16 the sums of one head's dq are float32.
      const std::int64_t sums = dtype == at::kFloat ? 0 : 4 * sizes.queries * sizes.head_dim;
      EXPECT_LT(peak, wanted + sums + 2 * kMegabyte);
    }
  }
}

// So that backward of a joint projection takes them where they lie.
TEST_F(FlashAttention, GradientsAreSideBySideWhereQKAndVAre) {
  const at::Tensor vkq = at::randn({2, 70, 3, 4, 16});
  const auto gradients = [&](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    const kernels::FlashOutput out = kernels::flash_forward(q, k, v, {}, 0);
    return kernels::flash_backward(at::ones_like(out.out), q, k, v, out, {}, 0);
  };
  const auto part = [&](int index) { return vkq.select(2, index).transpose(1, 2); };
  ASSERT_TRUE(kernels::side_by_side(part(2), part(1), part(0)));
  EXPECT_FALSE(kernels::side_by_side(part(0), part(1), part(2)));
  const auto [dq, dk, dv] = gradients(part(2), part(1), part(0));
  EXPECT_TRUE(kernels::side_by_side(dq, dk, dv));
  const auto [q, k, v] = gradients(part(2).clone(), part(1).clone(), part(0).clone());
  EXPECT_FALSE(kernels::side_by_side(q, k, v));
  EXPECT_TRUE(at::equal(dq, q) && at::equal(dk, k) && at::equal(dv, v));
}

TEST_F(FlashAttention, SavesWhereHooksSeeItAndKeepsNoCycle) {
  const Sizes sizes{1, 2, 70, 70, 8, true};
  const at::Tensor q = heads_of(70, sizes, at::kFloat, 1).requires_grad_(true);
  const at::Tensor dy = heads_of(70, sizes, at::kFloat, 2);
  flash_->forward(q, q, q, {.causal = true}).backward(dy);
  const at::Tensor expected = q.grad().clone();
  q.mutable_grad().reset();

  at::Tensor y;
  const auto& counts =
      test::with_saved_tensor_hooks([&] { y = flash_->forward(q, q, q, {.causal = true}); });
  EXPECT_EQ(counts.packed, 5) << "q, k, v, log-sum-exp and the output";
  y.backward(dy, /*retain_graph=*/true);
  EXPECT_EQ(counts.unpacked, 5);
  EXPECT_TRUE(at::equal(q.grad(), expected));

  const WeakNodePointer<torch::autograd::Node> node(y.grad_fn());
  y.reset();
  EXPECT_TRUE(node.expired()) << "the saved output refers to the node that saved it";
}

TEST_F(FlashAttention, SeesThatWhatItSavedWasWrittenTo) {
  const Sizes sizes{1, 1, 8, 8, 8, true};
  const at::Tensor q = heads_of(8, sizes, at::kFloat, 1).requires_grad_(true);
  const at::Tensor k = heads_of(8, sizes, at::kFloat, 2);
  const at::Tensor y = flash_->forward(q, k, k, {.causal = true});
  k.add_(1.0);
  EXPECT_THROW(y.sum().backward(), c10::Error);
}

}  // namespace
}  // namespace ddprun
