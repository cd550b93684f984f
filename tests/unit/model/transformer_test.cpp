// The transformer against an independent float64 one (forward, loss, every gradient), its
// parameters and their initial values.
#include "ddprun/model/transformer.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "ddprun/base/error.h"
#include "ddprun/model/initialization.h"
#include "support/plugin_library.h"
#include "support/reference_transformer.h"
#include "support/toy_model.h"

namespace ddprun {
namespace {

using test::load_plugin;

constexpr std::int64_t kTime = 7;  // below the context length: positions must not depend on it

/// Norm weights begin as ones and biases as zeros, which would hide a missing one.
void perturb_vectors(const Transformer& model) {
  const c10::NoGradGuard no_grad;
  for (const NamedTensor& each : model.parameters()) {
    if (each.tensor.dim() == 1) each.tensor.add_(at::arange(each.tensor.numel()) * 0.1 - 0.3);
  }
}

/// The largest difference, relative to the largest value.
double difference(const at::Tensor& ours, const at::Tensor& expected) {
  EXPECT_EQ(ours.sizes(), expected.sizes());
  return ((ours - expected).abs().max() / expected.abs().max()).item<double>();
}

struct Variant {
  const char* name;
  void (*change)(ModelConfig& config);  ///< nullptr: the course's block
  const char* attention = "eager";
  KernelSet kernels = KernelSet::reference;
};

class TransformerNumerics : public testing::TestWithParam<Variant> {};

// float32 rounds at 6e-8; sums of up to 20 terms through two blocks stay within 2e-6 of the largest
// value of a tensor, and of all where a bias's gradient is the sum of larger ones.
TEST_P(TransformerNumerics, LogitsLossAndEveryGradientMatchFloat64) {
  const auto attention = load_plugin<Attention>("attention", GetParam().attention);
  ModelConfig config = test::toy_model();
  config.kernels = GetParam().kernels;
  const bool plain = GetParam().change == nullptr;
  if (!plain) GetParam().change(config);
  EXPECT_EQ(config.beyond_fused().empty(), plain);
  const Transformer model(config, *attention, 1);
  perturb_vectors(model);
  const test::ReferenceTransformer reference(config, model);
  const at::Tensor ids =
      at::tensor({1, 5, 12, 0, 5, 5, 7, 3, 3, 9, 11, 2, 8, 6}, at::kLong).view({2, kTime});
  const at::Tensor targets =
      at::tensor({5, 12, 0, 5, 5, 7, 4, 3, 9, 11, 2, 8, 6, 10}, at::kLong).view({2, kTime});
  EXPECT_LT(difference(model.logits(ids), reference.logits(ids)), 2e-6);
  const at::Tensor expected = reference.loss(ids, targets);
  expected.backward();
  double largest = 0;
  for (const NamedTensor& each : model.parameters()) {
    largest = std::max(largest, reference.parameter(each.name).grad().abs().max().item<double>());
  }
  const auto compare = [&](const at::Tensor& loss, double of_loss, double of_gradients) {
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), of_loss);
    loss.backward();
    for (const NamedTensor& each : model.parameters()) {
      const at::Tensor right = reference.parameter(each.name).grad();
      const double scale = plain ? right.abs().max().item<double>() : largest;
      EXPECT_LE((each.tensor.grad() - right).abs().max().item<double>(), of_gradients * scale)
          << each.name;
      each.tensor.mutable_grad().reset();
    }
  };
  const at::Tensor loss = model.loss(ids, targets);
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  compare(loss, 1e-6, 2e-6);
  compare(model.exact_loss(ids, targets), 3e-8, plain ? 2e-7 : 1e-7);  // angles are float32
  std::int64_t count = 0;
  for (const NamedTensor& each : model.parameters()) count += each.tensor.numel();
  EXPECT_EQ(config.parameter_count(), count);
}

INSTANTIATE_TEST_SUITE_P(
    Each, TransformerNumerics,
    testing::Values(Variant{"eager", nullptr}, Variant{"sdpa", nullptr, "sdpa"},
                    Variant{"eager_fused", nullptr, "eager", KernelSet::fused},
                    Variant{"sdpa_fused", nullptr, "sdpa", KernelSet::fused},
                    Variant{"layernorm", [](ModelConfig& c) { c.norm = Norm::layernorm; }},
                    Variant{"learned", [](ModelConfig& c) { c.positions = Positions::learned; }},
                    Variant{"gelu", [](ModelConfig& c) { c.activation = Activation::gelu; }},
                    Variant{"bias", [](ModelConfig& c) { c.bias = true; }},
                    Variant{"joint_qkv", [](ModelConfig& c) { c.joint_qkv = true; }},
                    Variant{"gpt2",
                            [](ModelConfig& c) {
                              c.norm = Norm::layernorm;
                              c.positions = Positions::learned;
                              c.activation = Activation::gelu;
                              c.bias = c.joint_qkv = true;
                            }}),
    [](const auto& info) { return std::string(info.param.name); });

class TransformerTest : public ::testing::Test {
 protected:
  std::shared_ptr<Attention> attention_ = load_plugin<Attention>("attention", "eager");
};

TEST_F(TransformerTest, ParametersAreNamedAndShapedAsInCs336Basics) {
  ModelConfig config = test::toy_model();
  config.layers = 1;
  const Transformer model(config, *attention_, 0);
  const std::vector<std::pair<std::string, std::vector<std::int64_t>>> expected = {
      {"token_embeddings.weight", {13, 8}},
      {"layers.0.ln1.weight", {8}},
      {"layers.0.attn.q_proj.weight", {8, 8}},
      {"layers.0.attn.k_proj.weight", {8, 8}},
      {"layers.0.attn.v_proj.weight", {8, 8}},
      {"layers.0.attn.output_proj.weight", {8, 8}},
      {"layers.0.ln2.weight", {8}},
      {"layers.0.ffn.w1.weight", {20, 8}},
      {"layers.0.ffn.w3.weight", {20, 8}},
      {"layers.0.ffn.w2.weight", {8, 20}},
      {"ln_final.weight", {8}},
      {"lm_head.weight", {13, 8}},
  };
  ASSERT_EQ(model.parameters().size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto& [name, tensor, unit, wide, twice, elsewhere] = model.parameters()[i];
    EXPECT_EQ(name, expected[i].first);
    EXPECT_EQ(tensor.sizes(), expected[i].second) << name;
    EXPECT_TRUE(tensor.is_leaf() && tensor.requires_grad()) << name;
    EXPECT_EQ(tensor.scalar_type(), at::kFloat) << name;
  }
}

TEST_F(TransformerTest, InitialValuesAreTruncatedNormal) {
  const ModelConfig config = {.preset = "wide",
                              .vocab_size = 2000,
                              .context_length = 4,
                              .d_model = 64,
                              .d_ff = 192,
                              .layers = 1,
                              .heads = 4};
  const Transformer model(config, *attention_, 7);
  for (const auto& [name, tensor, unit, wide, twice, elsewhere] : model.parameters()) {
    const at::Tensor values = tensor.detach().to(at::kDouble);
    if (tensor.dim() == 1) {
      EXPECT_TRUE((values == 1.0).all().item<bool>()) << name;
      continue;
    }
    const double fan = static_cast<double>(tensor.size(0) + tensor.size(1));
    const double std = name == "token_embeddings.weight" ? 1.0 : std::sqrt(2.0 / fan);
    const double error =
        4 / std::sqrt(static_cast<double>(tensor.numel()));  // 4 standard errors of the mean
    EXPECT_NEAR(values.mean().item<double>() / std, 0.0, error) << name;
    EXPECT_NEAR(values.square().mean().sqrt().item<double>() / std, 0.98658, error) << name;
    const double largest = values.abs().max().item<double>() / std;
    EXPECT_LE(largest, 3.000001) << name;
    EXPECT_GT(largest, 2.7) << name;
    const double within_one = (values.abs() < std).to(at::kDouble).mean().item<double>();
    EXPECT_NEAR(within_one, 0.68269 / 0.99730, error) << name;
  }
}

TEST_F(TransformerTest, InitialValuesDependOnTheSeedAndTheNameAlone) {
  ModelConfig config = test::toy_model();
  const Transformer model(config, *attention_, 5);
  const Transformer other_seed(config, *attention_, 6);
  at::set_num_threads(at::get_num_threads() + 2);
  config.layers = 1;  // what is drawn before and after must not matter
  const Transformer shorter(config, *attention_, 5);
  std::map<std::string, at::Tensor> by_name;
  for (const auto& [name, tensor, unit, wide, twice, elsewhere] : model.parameters())
    by_name[name] = tensor;
  for (const auto& [name, tensor, unit, wide, twice, elsewhere] : shorter.parameters()) {
    EXPECT_TRUE(at::equal(tensor, by_name.at(name))) << name;
  }
  for (const auto& [name, tensor, unit, wide, twice, elsewhere] : other_seed.parameters()) {
    if (tensor.dim() == 2) {
      EXPECT_FALSE(at::equal(tensor, by_name.at(name))) << name;
    }
  }
  EXPECT_FALSE(at::equal(by_name.at("layers.0.attn.q_proj.weight"),
                         by_name.at("layers.1.attn.q_proj.weight")));
  EXPECT_FALSE(at::equal(by_name.at("layers.0.attn.q_proj.weight"),
                         by_name.at("layers.0.attn.k_proj.weight")));
}

TEST_F(TransformerTest, TheMemoryOfInitialValuesGoesWhenTheParameterMoves) {
  for (const std::int64_t rows : {8, 1 << 10}) {  // a large one lies in memory of its own
    const at::Tensor parameter = truncated_normal({rows, 1 << 10}, 1, 5, "w").requires_grad_();
    const c10::weak_intrusive_ptr<c10::StorageImpl> memory(
        c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
            parameter.storage().unsafeGetStorageImpl()));
    at::Tensor(parameter).set_data(at::zeros({rows, 1 << 10}));
    EXPECT_TRUE(memory.expired()) << rows;
  }
}

TEST_F(TransformerTest, HeadsThatDoNotFitAreRefused) {
  ModelConfig config = test::toy_model();
  config.heads = 3;
  EXPECT_THROW(Transformer(config, *attention_, 0), ConfigError);
  config.heads = 0;
  EXPECT_THROW(Transformer(config, *attention_, 0), ConfigError);
  config.heads = 8;  // head_dim 1
  EXPECT_THROW(Transformer(config, *attention_, 0), ConfigError) << "RoPE turns pairs";
  config.positions = Positions::learned;
  config.kernels = KernelSet::reference;
  EXPECT_NO_THROW(Transformer(config, *attention_, 0));
}

}  // namespace
}  // namespace ddprun
