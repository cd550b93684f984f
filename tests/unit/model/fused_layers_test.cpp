// The fused layers against PyTorch's operators one by one: losses and every gradient, in the flat
// buffers and outside, accumulated, interleaved, scaled, in float32 and bfloat16.
#include "ddprun/model/fused_layers.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>
#include <utility>

#include "ddprun/base/error.h"
#include "ddprun/model/transformer.h"
#include "ddprun/optim/flat_buffers.h"
#include "ddprun/plugin/precision.h"
#include "support/plugin_library.h"
#include "support/saved_tensor_hooks.h"

namespace ddprun::fused_layers_test {
namespace {

using test::load_plugin;

constexpr std::int64_t kVocab = 97;
constexpr std::int64_t kTime = 33;

/// Two layers. d_ff 100: in the flat buffer there is padding between w3 and w1 unless d_model is a
/// multiple of 16.
ModelConfig config_of(KernelSet kernels, std::int64_t d_model = 64) {
  return {.preset = "",
          .vocab_size = kVocab,
          .context_length = 40,
          .d_model = d_model,
          .d_ff = 100,
          .layers = 2,
          .heads = 4,
          .kernels = kernels};
}

struct Tokens {
  at::Tensor ids = at::randint(kVocab, {3, kTime}, at::kLong);
  at::Tensor targets = at::randint(kVocab, {3, kTime}, at::kLong);
};

class FusedLayers : public ::testing::Test {
 protected:
  /// All gradients, flattened, in registration order.
  static std::vector<at::Tensor> gradients(const Transformer& model) {
    std::vector<at::Tensor> all;
    for (const auto& [name, tensor, unit, wide, twice, elsewhere] : model.parameters()) {
      EXPECT_TRUE(tensor.grad().defined()) << name;
      all.push_back(tensor.grad().flatten().clone());
    }
    return all;
  }

  /// What the reference kernels make of `backward`, which runs losses and backwards of a model.
  template <typename Backward>
  std::vector<at::Tensor> reference(const Backward& backward, std::int64_t d_model = 64) {
    const Transformer model(config_of(KernelSet::reference, d_model), *attention_, 3);
    backward(model);
    return gradients(model);
  }

  /// Each gradient within `bound` of the reference's, relative to its norm.
  static void expect_near(const Transformer& model, const std::vector<at::Tensor>& expected,
                          double bound) {
    const auto got = gradients(model);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double error = ((got[i] - expected[i]).norm() / expected[i].norm()).item<double>();
      EXPECT_LT(error, bound) << model.parameters()[i].name;
    }
  }

  std::shared_ptr<Attention> attention_ = load_plugin<Attention>("attention", "flash");
  Tokens a_, b_;
};

// float32 rounds at 6e-8; norms over sums of a hundred terms through two blocks stay below this.
constexpr double kBound = 2e-6;

TEST_F(FusedLayers, InFlatBuffersAtAnyWidthAndNumberOfThreads) {
  for (const std::int64_t d_model : {64, 72}) {  // adjacent in memory, and with padding between
    for (const int threads : {1, 3}) {
      at::set_num_threads(threads);
      const auto backward = [&](const Transformer& model) {
        model.loss(a_.ids, a_.targets).backward();
      };
      const auto expected = reference(backward, d_model);
      Transformer model(config_of(KernelSet::fused, d_model), *attention_, 3);
      FlatBuffers buffers(model.parameters());
      model.use_memory(buffers.slots());
      backward(model);
      expect_near(model, expected, kBound);
      for (const ParameterSlot& slot : buffers.slots()) {
        EXPECT_EQ(slot.parameter.grad().const_data_ptr(), slot.gradient.const_data_ptr())
            << "a gradient outside of the buffer";
      }
    }
  }
}

// The head's gradient is written in forward, where the first layers' gradients end.
TEST_F(FusedLayers, InFlatBuffersWithAWeightThatIsUsedTwice) {
  const auto config = [](KernelSet kernels) {
    ModelConfig tied = config_of(kernels);
    tied.tie_embeddings = true;
    return tied;
  };
  const Transformer plain(config(KernelSet::reference), *attention_, 3);
  plain.loss(a_.ids, a_.targets).backward();
  Transformer model(config(KernelSet::fused), *attention_, 3);
  std::vector<NamedTensor> parameters = model.parameters();
  parameters.pop_back();  // the head's weight, which is the embedding's
  FlatBuffers buffers(parameters);
  std::vector<ParameterSlot> slots = buffers.slots();
  slots.push_back(slots.front());
  model.use_memory(slots);
  model.loss(a_.ids, a_.targets).backward();
  expect_near(model, gradients(plain), kBound);
}

TEST_F(FusedLayers, SaveInTheMemoryOfGradientsThatAreNotWrittenYet) {
  Transformer model(config_of(KernelSet::fused), *attention_, 3);
  FlatBuffers buffers(model.parameters());
  model.use_memory(buffers.slots());
  const at::Tensor ids = at::randint(kVocab, {1, 8}, at::kLong);
  const at::Tensor memory = buffers.gradients(buffers.all());
  memory.zero_();
  // Of each row: a norm's output, q, k, v and the stream; the head's gradient lies at the front.
  const std::int64_t block = 8 * (2 * 64 + 3 * 64 + 2 * 100 + 2 * 64);
  const at::Tensor behind_head = memory.slice(0, kVocab * 64);
  at::Tensor loss = model.loss(ids, ids);
  EXPECT_GT(behind_head.count_nonzero().item<std::int64_t>(), 2 * block * 9 / 10);
  loss.backward();
  const at::Tensor gradients = memory.clone();
  loss = model.loss(ids, ids);
  EXPECT_TRUE(memory.equal(gradients)) << "what may be added to is not lent";
  buffers.zero_grad();
  loss = model.loss(ids, ids);
  EXPECT_FALSE(behind_head.equal(gradients.slice(0, kVocab * 64)));
}

// More rows than there are logits at a time: the parts add up, the last of them shorter.
TEST_F(FusedLayers, TheHeadTakesRowsInParts) {
  const at::Tensor ids = at::randint(kVocab, {95, kTime}, at::kLong);
  const at::Tensor targets = at::randint(kVocab, {95, kTime}, at::kLong);
  const auto backward = [&](const Transformer& model) { model.loss(ids, targets).backward(); };
  const auto expected = reference(backward);
  const Transformer model(config_of(KernelSet::fused), *attention_, 3);
  backward(model);
  expect_near(model, expected, kBound);
}

TEST_F(FusedLayers, SaveWhereHooksSeeIt) {
  const auto backward = [&](const Transformer& model) {
    model.loss(a_.ids, a_.targets).backward();
  };
  const auto expected = reference(backward);
  const Transformer model(config_of(KernelSet::fused), *attention_, 3);
  at::Tensor loss;
  const auto& counts =
      test::with_saved_tensor_hooks([&] { loss = model.loss(a_.ids, a_.targets); });
  // The embedding's ids; each block's input (3), attention (5), its
  // output (1) and feed-forward (4); the head's (4).
  EXPECT_EQ(counts.packed, 1 + 2 * (3 + 5 + 1 + 4) + 4);
  loss.backward();
  EXPECT_EQ(counts.unpacked, counts.packed);
  expect_near(model, expected, kBound);
}

TEST_F(FusedLayers, LossWithoutGradientIsTheSame) {
  const Transformer model(config_of(KernelSet::fused), *attention_, 3);
  const double with = model.loss(a_.ids, a_.targets).item<double>();
  const c10::NoGradGuard no_grad;
  const at::Tensor without = model.loss(a_.ids, a_.targets);
  EXPECT_EQ(without.item<double>(), with);
  EXPECT_FALSE(without.requires_grad());
  const Transformer slow(config_of(KernelSet::reference), *attention_, 3);
  EXPECT_NEAR(slow.loss(a_.ids, a_.targets).item<double>(), with, 2e-6);
}

// The head's gradient is built during the forward: an order of losses and backwards in which two
// losses live at once must not mix them up.
TEST_F(FusedLayers, MicroBatchesAddUpInAnyOrderOfLossesAndBackwards) {
  const auto one_by_one = [&](const Transformer& model) {
    (model.loss(a_.ids, a_.targets) * 0.25).backward();
    (model.loss(b_.ids, b_.targets) * 2).backward();
  };
  const auto expected = reference(one_by_one);
  const auto first_in = [&](const Transformer& model) {
    const at::Tensor a = model.loss(a_.ids, a_.targets) * 0.25;
    const at::Tensor b = model.loss(b_.ids, b_.targets) * 2;
    a.backward();
    b.backward();
  };
  const auto last_in = [&](const Transformer& model) {
    const at::Tensor a = model.loss(a_.ids, a_.targets) * 0.25;
    const at::Tensor b = model.loss(b_.ids, b_.targets) * 2;
    b.backward();
    a.backward();
  };
  const auto together = [&](const Transformer& model) {
    (model.loss(a_.ids, a_.targets) * 0.25 + model.loss(b_.ids, b_.targets) * 2).backward();
  };
  const auto with_one_given_up = [&](const Transformer& model) {
    model.loss(b_.ids, b_.targets);
    (model.loss(a_.ids, a_.targets) * 0.25).backward();
    model.loss(a_.ids, a_.targets);
    (model.loss(b_.ids, b_.targets) * 2).backward();
  };
  using Order = std::function<void(const Transformer&)>;
  for (const Order& order : {Order(one_by_one), Order(first_in), Order(last_in), Order(together),
                             Order(with_one_given_up)}) {
    Transformer alone(config_of(KernelSet::fused), *attention_, 3);
    order(alone);
    expect_near(alone, expected, kBound);
    Transformer flat(config_of(KernelSet::fused), *attention_, 3);
    FlatBuffers buffers(flat.parameters());
    flat.use_memory(buffers.slots());
    for (int times = 0; times < 2; ++times) {  // what a step leaves in the buffer is overwritten
      buffers.zero_grad();
      order(flat);
      expect_near(flat, expected, kBound);
    }
  }
}

TEST_F(FusedLayers, WriteWholeGradientsAsRanksExchangeThem) {
  const auto exchanged = [&](c10::ScalarType reduce, std::int64_t micro_batches, int by_products) {
    Transformer model(config_of(KernelSet::fused), *attention_, 3);
    FlatBuffers buffers(model.parameters(), {.compute = at::kBFloat16, .reduce = reduce},
                        allocate_private, KernelSet::fused);
    model.use_memory(buffers.slots());
    buffers.gradients(buffers.all()).fill_(std::numeric_limits<float>::quiet_NaN());
    buffers.expect_micro_batches(micro_batches);
    for (int i = 0; i < micro_batches; ++i) {
      (model.loss(a_.ids, a_.targets) / micro_batches).backward();
    }
    std::vector<at::Tensor> all;
    for (int index = 0; index < buffers.count(); ++index) {
      EXPECT_TRUE(buffers.adopt_gradient(index));
      if (buffers.parameter(index).grad().isnan().all().item<bool>()) --by_products;
      buffers.finish_gradient(index);
      all.push_back(buffers.gradients(buffers.range(index)).to(at::kFloat));
    }
    EXPECT_EQ(by_products, 0);
    return all;
  };
  const auto sums = exchanged(at::kFloat, 1, 0);
  // q, k, v, output, w1, w3 and w2 of two layers; the head's sum goes over parts of the rows.
  for (const auto& [micro_batches, by_products] : {std::pair{1, 2 * 7}, {2, 0}}) {
    const auto got = exchanged(at::kBFloat16, micro_batches, by_products);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const at::Tensor rounded = sums[i].to(at::kBFloat16).to(at::kFloat);
      // One more rounding where libraries multiply, or where a second micro-batch is added.
      EXPECT_TRUE(at::allclose(got[i], rounded, 1.0 / 64, 1e-6)) << i;
    }
  }
}

TEST_F(FusedLayers, ALossThatUsesTheModelTwiceAddsToWhatWasWrittenAsRanksExchangeIt) {
  const auto sums = [&](c10::ScalarType reduce) {
    Transformer model(config_of(KernelSet::fused), *attention_, 3);
    FlatBuffers buffers(model.parameters(), {.compute = at::kBFloat16, .reduce = reduce},
                        allocate_private, KernelSet::fused);
    model.use_memory(buffers.slots());
    buffers.expect_micro_batches(1);
    (model.loss(a_.ids, a_.targets) + model.loss(b_.ids, b_.targets)).backward();
    return gradients(model);
  };
  const auto expected = sums(at::kFloat);
  const auto got = sums(at::kBFloat16);
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = ((got[i] - expected[i]).norm() / expected[i].norm()).item<double>();
    EXPECT_LT(error, 1.0 / 128) << i;  // the first of two terms was rounded
  }
}

// bfloat16 keeps 8 bits: two ways of rounding the same products differ by about its own error.
TEST_F(FusedLayers, Bfloat16IsAsNearToFloat32AsAutocast) {
  const auto backward = [&](const Transformer& model) {
    model.loss(a_.ids, a_.targets).backward();
  };
  const auto exact = reference(backward);
  const auto bf16 = load_plugin<Precision>("precision", "bf16_mixed");
  const auto autocast = reference([&](const Transformer& model) {
    at::Tensor loss;
    {
      const auto guard = bf16->forward_guard();
      loss = model.loss(a_.ids, a_.targets);
    }
    loss.backward();
  });
  Transformer model(config_of(KernelSet::fused), *attention_, 3);
  FlatBuffers buffers(model.parameters(), bf16->dtypes().buffers, allocate_private,
                      KernelSet::fused);
  model.use_memory(buffers.slots());
  {
    const auto guard = bf16->forward_guard();
    const at::Tensor loss = model.loss(a_.ids, a_.targets);
    EXPECT_EQ(loss.scalar_type(), at::kFloat);
    loss.backward();
  }
  const auto got = gradients(model);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double norm = exact[i].norm().item<double>();
    const double error = (got[i] - exact[i]).norm().item<double>() / norm;
    const double usual = (autocast[i] - exact[i]).norm().item<double>() / norm;
    EXPECT_GT(error, 1e-5) << "not in bfloat16: " << model.parameters()[i].name;
    EXPECT_LT(error, 1.5 * usual + 2e-3) << model.parameters()[i].name;
  }
}

TEST_F(FusedLayers, RefusesWhatItDoesNotKnow) {
  const Transformer model(config_of(KernelSet::fused), *attention_, 3);
  const at::Tensor loss = model.loss(a_.ids, a_.targets);
  EXPECT_THROW(torch::autograd::backward({loss}, {}, true, /*create_graph=*/true), Error);
  torch::autograd::backward({loss}, {}, /*retain_graph=*/true);
  EXPECT_THROW(torch::autograd::backward({loss}, {}, /*retain_graph=*/true), Error)
      << "layers work in place";
  const auto bf16 = load_plugin<Precision>("precision", "bf16_mixed");
  const auto guard = bf16->forward_guard();  // and no copy of the weights in bfloat16
  EXPECT_THROW(model.loss(a_.ids, a_.targets), ConfigError);
}

}  // namespace
}  // namespace ddprun::fused_layers_test
