// What differs from the course's block, against the same formulas in float64.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numbers>

#include "ddprun/base/error.h"
#include "ddprun/model/transformer.h"
#include "support/plugin_library.h"
#include "support/toy_model.h"

namespace ddprun::variants_test {
namespace {

constexpr std::int64_t kTime = 7;  // below the context length

/// The model once more, from its parameters by name, which require gradients.
class InFloat64 {
 public:
  InFloat64(const ModelConfig& config, const Transformer& model) : config_(config) {
    for (const NamedTensor& each : model.parameters()) {
      parameters_[each.name] = each.tensor.detach().to(at::kDouble).requires_grad_();
    }
  }

  at::Tensor loss(const at::Tensor& ids, const at::Tensor& targets) {
    at::Tensor x = of("token_embeddings.weight").index({ids});
    if (config_.positions == Positions::learned) {
      x = x + of("position_embeddings.weight").slice(0, 0, kTime);
    }
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
      const std::string prefix = "layers." + std::to_string(layer) + ".";
      x = x + attend(prefix + "attn.", norm(prefix + "ln1", x));
      x = x + feed_forward(prefix + "ffn.", norm(prefix + "ln2", x));
    }
    const at::Tensor logits = norm("ln_final", x).matmul(of("lm_head.weight").t());
    return -logits.log_softmax(-1).gather(-1, targets.unsqueeze(-1)).mean();
  }

  const at::Tensor& of(const std::string& name) const { return parameters_.at(name); }

 private:
  at::Tensor with_bias(const at::Tensor& y, const std::string& name) const {
    const auto bias = parameters_.find(name + ".bias");
    return bias == parameters_.end() ? y : y + bias->second;
  }
  at::Tensor linear(const std::string& name, const at::Tensor& x) const {
    return with_bias(x.matmul(of(name + ".weight").t()), name);
  }
  at::Tensor norm(const std::string& name, const at::Tensor& x) const {
    const bool centred = config_.norm == Norm::layernorm;
    const at::Tensor own = centred ? x - x.mean(-1, true) : x;
    const at::Tensor square = own.pow(2).mean(-1, true);
    return with_bias(own / (square + config_.norm_eps).sqrt() * of(name + ".weight"), name);
  }
  at::Tensor turned(const at::Tensor& x) const {  // (B, heads, T, d)
    if (config_.positions == Positions::learned) return x;
    at::Tensor out = at::zeros_like(x);
    for (std::int64_t t = 0; t < kTime; ++t) {
      for (std::int64_t j = 0; j < config_.head_dim() / 2; ++j) {
        const double angle =
            static_cast<double>(t) *
            std::pow(config_.rope_theta,
                     -2.0 * static_cast<double>(j) / static_cast<double>(config_.head_dim()));
        const at::Tensor a = x.select(2, t).select(-1, 2 * j),
                         b = x.select(2, t).select(-1, 2 * j + 1);
        out.select(2, t).select(-1, 2 * j).copy_(a * std::cos(angle) - b * std::sin(angle));
        out.select(2, t).select(-1, 2 * j + 1).copy_(a * std::sin(angle) + b * std::cos(angle));
      }
    }
    return out;
  }
  at::Tensor attend(const std::string& prefix, const at::Tensor& x) const {
    std::vector<at::Tensor> qkv;
    if (config_.joint_qkv) {
      qkv = linear(prefix + "qkv_proj", x).chunk(3, -1);
    } else {
      for (const char* name : {"q_proj", "k_proj", "v_proj"})
        qkv.push_back(linear(prefix + name, x));
    }
    for (at::Tensor& each : qkv) {
      each = each.view({x.size(0), kTime, config_.heads, config_.head_dim()}).transpose(1, 2);
    }
    at::Tensor scores = turned(qkv[0]).matmul(turned(qkv[1]).transpose(-1, -2)) /
                        std::sqrt(static_cast<double>(config_.head_dim()));
    const at::Tensor later = at::ones({kTime, kTime}, at::kBool).triu(1);
    scores = scores.masked_fill(later, -std::numeric_limits<double>::infinity());
    const at::Tensor mixed = scores.softmax(-1).matmul(qkv[2]).transpose(1, 2);
    return linear(prefix + "output_proj", mixed.reshape({x.size(0), kTime, config_.d_model}));
  }
  at::Tensor feed_forward(const std::string& prefix, const at::Tensor& x) const {
    const at::Tensor a = linear(prefix + "w1", x);
    if (config_.activation == Activation::gelu) {
      return linear(prefix + "w2", a * 0.5 * (1 + (a / std::numbers::sqrt2).erf()));
    }
    return linear(prefix + "w2", a * a.sigmoid() * linear(prefix + "w3", x));
  }

  ModelConfig config_;
  std::map<std::string, at::Tensor> parameters_;
};

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
  InFloat64 right(config, model);
  const at::Tensor own = model.loss(ids, targets), expected = right.loss(ids, targets);
  EXPECT_NEAR(own.item<double>(), expected.item<double>(), 1e-6);
  own.backward();
  expected.backward();
  double largest = 0;
  for (const NamedTensor& each : model.parameters()) {
    largest = std::max(largest, right.of(each.name).grad().abs().max().item<double>());
  }
  for (const NamedTensor& each : model.parameters()) {
    const at::Tensor gradient = right.of(each.name).grad();
    const double apart = (each.tensor.grad().to(at::kDouble) - gradient).abs().max().item<double>();
    // float32 rounds at 6e-8, and a small gradient is the sum of larger ones.
    EXPECT_LE(apart, 2e-6 * largest) << each.name;
  }
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
