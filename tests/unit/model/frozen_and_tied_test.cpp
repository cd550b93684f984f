// Parameters that are not trained, and an embedding that is the head's weight too: by the fused
// layers and by PyTorch's operators, with and without recomputation.
#include <ATen/TensorOperators.h>
#include <ATen/ops/randint.h>
#include <c10/core/GradMode.h>

#include <map>

#include "ddprun/model/model_parameters.h"
#include "ddprun/model/transformer.h"
#include "support/matchers.h"
#include "support/plugin_library.h"

namespace ddprun {
namespace {

constexpr std::int64_t kVocab = 61;

ModelConfig config_of(KernelSet kernels) {
  return {.preset = "",
          .vocab_size = kVocab,
          .context_length = 24,
          .d_model = 32,
          .d_ff = 48,
          .layers = 3,
          .heads = 2,
          .kernels = kernels};
}

class FrozenAndTied : public ::testing::TestWithParam<KernelSet> {
 protected:
  using Gradients = std::map<std::string, at::Tensor>;

  /// The gradients of two micro-batches, by name. What has none is not there.
  Gradients gradients(const ModelConfig& config) {
    const Transformer model(config, *attention_, 3);
    for (int i = 0; i < 2; ++i) (model.loss(ids_[i], targets_[i]) / 2).backward();
    Gradients all;
    for (const NamedTensor& each : model.parameters()) {
      if (each.tensor.grad().defined()) all[each.name] = each.tensor.grad();
    }
    return all;
  }

  ModelConfig config() const { return config_of(GetParam()); }

  std::shared_ptr<Attention> attention_ = test::load_plugin<Attention>("attention", "flash");
  std::vector<at::Tensor> ids_ = {at::randint(kVocab, {2, 19}, at::kLong),
                                  at::randint(kVocab, {2, 19}, at::kLong)};
  std::vector<at::Tensor> targets_ = {at::randint(kVocab, {2, 19}, at::kLong),
                                      at::randint(kVocab, {2, 19}, at::kLong)};
};

TEST_P(FrozenAndTied, WhatIsTrainedHasTheGradientsThatItHasWhenAllIs) {
  const Gradients all = gradients(config());
  const std::vector<std::vector<std::string>> choices = {
      {"token_embeddings.weight"},
      {"lm_head.weight"},
      {"*.ln?.weight", "ln_final.weight"},
      {"*.q_proj.weight"},  // of three products that are one
      {"*.v_proj.weight"},
      {"*.w1.weight", "*.w2.weight"},  // of two
      {"*.w3.weight"},
      {"*.output_proj.weight"},
      {"token_embeddings.weight", "layers.0.ln1.weight", "layers.0.attn.[qkv]_proj.weight"},
      {"layers.1.*"},  // between blocks that are trained
      {"token_embeddings.weight", "layers.0.*", "layers.1.*"},
      {"token_embeddings.weight", "layers.*"},
      {"layers.*", "ln_final.weight", "lm_head.weight"}};
  for (const std::vector<std::string>& frozen : choices) {
    ModelConfig some = config();
    some.frozen = frozen;
    for (const bool again : {false, true}) {
      some.recompute = {};
      if (again) some.recompute.groups = 2;
      const Gradients got = gradients(some);
      for (const ModelParameter& each : model_parameters(some)) {
        ASSERT_EQ(got.contains(each.name), each.trained) << each.name << ", " << frozen[0];
        if (!each.trained) continue;
        // A product of its own may add in another order than one of three.
        const double error =
            ((got.at(each.name) - all.at(each.name)).norm() / all.at(each.name).norm())
                .item<double>();
        EXPECT_LT(error, 1e-6) << each.name << ", " << frozen[0] << (again ? ", again" : "");
      }
    }
  }
}

TEST_P(FrozenAndTied, ATiedWeightHasTheGradientOfBothUses) {
  ModelConfig tied = config();
  tied.tie_embeddings = true;
  const Transformer one(tied, *attention_, 3);
  ModelConfig apart = config();
  const Transformer two(apart, *attention_, 3);
  {
    const c10::NoGradGuard no_gradients;
    for (std::size_t i = 0; i < two.parameters().size(); ++i) {  // lm_head.weight is there twice
      two.parameters()[i].tensor.detach().copy_(one.parameters()[i].tensor);
    }
  }
  for (const Transformer* model : {&one, &two}) {
    for (int i = 0; i < 2; ++i) (model->loss(ids_[i], targets_[i]) / 2).backward();
  }
  const at::Tensor both = one.parameters().front().tensor.grad();
  const at::Tensor sum = two.parameters().front().tensor.grad() +  // the embedding's
                         two.parameters().back().tensor.grad();    // the head's
  EXPECT_LT(((both - sum).norm() / sum.norm()).item<double>(), 1e-6);
  EXPECT_TRUE(one.parameters().back().tensor.is_same(one.parameters().front().tensor));
  // Logits of a scale that a loss can start from.
  EXPECT_LT(one.loss(ids_[0], targets_[0]).item<double>(), 1.5 * std::log(kVocab));
}

INSTANTIATE_TEST_SUITE_P(Kernels, FrozenAndTied,
                         ::testing::Values(KernelSet::reference, KernelSet::fused),
                         [](const auto& info) {
                           return info.param == KernelSet::fused ? "fused" : "reference";
                         });

TEST(ModelParameters, AreWhatTheModelRegisters) {
  const auto attention = test::load_plugin<Attention>("attention", "flash");
  for (const bool tied : {false, true}) {
    ModelConfig config = config_of(KernelSet::fused);
    config.tie_embeddings = tied;
    config.frozen = {"layers.1.*"};
    const Transformer model(config, *attention, 3);
    std::int64_t count = 0;
    const std::vector<ModelParameter> listed = model_parameters(config);
    for (std::size_t i = 0; i < listed.size(); ++i) {
      const NamedTensor& registered = model.parameters()[i];
      EXPECT_EQ(registered.name, listed[i].name);
      EXPECT_EQ(registered.tensor.sizes(), at::IntArrayRef(listed[i].sizes)) << listed[i].name;
      EXPECT_EQ(registered.tensor.requires_grad(), listed[i].trained) << listed[i].name;
      EXPECT_EQ(listed[i].trained, !listed[i].name.starts_with("layers.1.")) << listed[i].name;
      count += registered.tensor.numel();
    }
    EXPECT_EQ(model.parameters().size(), listed.size() + (tied ? 1 : 0));
    EXPECT_EQ(count, config.parameter_count());
  }
}

TEST(ModelParameters, RefusePatternsWithoutEffect) {
  const auto error = [](const std::vector<std::string>& frozen) {
    ModelConfig config = config_of(KernelSet::fused);
    config.frozen = frozen;
    return test::error_of<ConfigError>([&] { model_parameters(config); });
  };
  EXPECT_NO_THROW(model_parameters(config_of(KernelSet::fused)));
  EXPECT_THAT(error({"layers.0.*", "layer.1.*"}),
              AllOf(HasSubstr("model.frozen chooses no parameter"), HasSubstr("\"layer.1.*\""),
                    HasSubstr("token_embeddings.weight, layers.0.ln1.weight, ")));
  EXPECT_THAT(error({"*"}), HasSubstr("nothing would be trained"));
}

TEST(ModelParameters, FlopsAreOfTheGradientsThatAreComputed) {
  ModelConfig config = config_of(KernelSet::fused);
  const double block = 4 * 32 * 32 + 3 * 32 * 48, head = kVocab * 32.0, attention = 2 * 32 * 24.0;
  const double all = 6 * (3 * block + head) + 3 * 3 * attention;
  EXPECT_EQ(matmul_flops_per_token(config), all);
  config.frozen = {"*.w1.weight", "*.ln?.weight"};
  EXPECT_EQ(matmul_flops_per_token(config), all - 2.0 * 3 * 48 * 32) << "weights' gradients";
  config.frozen = {"token_embeddings.weight", "layers.0.*"};
  EXPECT_EQ(matmul_flops_per_token(config), all - 4 * block - 2 * attention)
      << "no backward through the first block; what the second's inputs need is counted from its "
         "first trained parameter on";
  config.frozen = {"layers.*", "ln_final.weight", "lm_head.weight"};
  EXPECT_EQ(matmul_flops_per_token(config), all - 2 * (3 * block + head)) << "to the embedding";
  config.frozen = {};
  config.tie_embeddings = true;
  EXPECT_EQ(matmul_flops_per_token(config), all);
}

}  // namespace
}  // namespace ddprun
