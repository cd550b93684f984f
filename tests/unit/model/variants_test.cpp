// What differs from the course's block, against the same formulas in float64.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ddprun/base/error.h"
#include "ddprun/model/transformer.h"
#include "support/plugin_library.h"
#include "support/reference_transformer.h"
#include "support/toy_model.h"

namespace ddprun::variants_test {
namespace {

constexpr std::int64_t kTime = 7;  // below the context length

ModelConfig toy() {
  ModelConfig config = test::toy_model();
  config.kernels = KernelSet::reference;
  return config;
}

struct Variant {
  const char* name;
  void (*change)(ModelConfig& config);
};

class ModelVariants : public testing::TestWithParam<Variant> {};

TEST_P(ModelVariants, LossAndEveryGradientMatchFloat64) {
  const auto attention = test::load_plugin<Attention>("attention", "eager");
  ModelConfig config = toy();
  GetParam().change(config);
  const Transformer model(config, *attention, 1);
  EXPECT_FALSE(config.beyond_fused().empty());
  std::int64_t count = 0;
  {
    const c10::NoGradGuard no_grad;  // ones and zeros would hide a missing weight or bias
    for (const NamedTensor& each : model.parameters()) {
      count += each.tensor.numel();
      if (each.tensor.dim() != 1) continue;
      each.tensor.add_(at::arange(each.tensor.numel()) * 0.1 - 0.3);
    }
  }
  EXPECT_EQ(config.parameter_count(), count);
  const at::Tensor ids = at::arange(2 * kTime).remainder(13).view({2, kTime});
  const at::Tensor targets = (ids * 5 + 2).remainder(13);
  const test::ReferenceTransformer right(config, model);
  const at::Tensor expected = right.loss(ids, targets);
  expected.backward();
  double largest = 0;
  for (const NamedTensor& each : model.parameters()) {
    largest = std::max(largest, right.parameter(each.name).grad().abs().max().item<double>());
  }
  const auto compare = [&](const at::Tensor& loss, double tolerance) {
    EXPECT_NEAR(loss.item<double>(), expected.item<double>(), tolerance / 2);
    loss.backward();
    for (const NamedTensor& each : model.parameters()) {
      const at::Tensor own = each.tensor.grad().to(at::kDouble);
      const at::Tensor apart = own - right.parameter(each.name).grad();
      EXPECT_LE(apart.abs().max().item<double>(), tolerance * largest) << each.name;
      each.tensor.mutable_grad().reset();
    }
  };
  // float32 rounds at 6e-8, and a small gradient is the sum of larger ones.
  compare(model.loss(ids, targets), 2e-6);
  compare(model.exact_loss(ids, targets), 1e-7);
}

INSTANTIATE_TEST_SUITE_P(
    Each, ModelVariants,
    testing::Values(Variant{"layernorm", [](ModelConfig& c) { c.norm = Norm::layernorm; }},
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

TEST(ModelVariantsOf, TheWriteUpsHaveItsTensorsAndParameters) {
  const ModelConfig laptop = model_preset("laptop-gpt2");
  EXPECT_EQ(laptop.parameter_count(), 70'859'776);
  EXPECT_EQ(model_parameters(laptop).size(), 149);
  EXPECT_EQ(model_preset("gpt2").parameter_count(), 124'439'808) << "as Hugging Face counts it";
}

TEST(ModelVariantsOf, LearnedPositionsNeedNoPairs) {
  ModelConfig config = toy();
  config.d_model = 6;
  const auto attention = test::load_plugin<Attention>("attention", "eager");
  EXPECT_THROW(Transformer(config, *attention, 1), ConfigError) << "RoPE turns pairs";
  config.positions = Positions::learned;
  EXPECT_NO_THROW(Transformer(config, *attention, 1));
}

}  // namespace
}  // namespace ddprun::variants_test
