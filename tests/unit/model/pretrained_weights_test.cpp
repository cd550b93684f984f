// Weights from elsewhere, and for others: Llama's layout gives the same loss by its own formulas.
#include "ddprun/model/pretrained_weights.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>

#include "ddprun/checkpoint/checkpoint_state.h"
#include "ddprun/checkpoint/tensor_file.h"
#include "ddprun/model/llama_layout.h"
#include "ddprun/model/model_parameters.h"
#include "ddprun/model/transformer.h"
#include "support/ddprun_command.h"
#include "support/toy_model.h"

namespace ddprun::pretrained_weights_test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::int64_t kTime = 8;

ModelConfig toy() {
  ModelConfig config = test::toy_model();
  config.kernels = KernelSet::reference;
  return config;
}

/// `rename` may change a tensor's name, or leave it out by an empty one.
void write_weights(
    const fs::path& file, const std::vector<NamedTensor>& parameters,
    const std::function<std::string(const std::string&)>& rename = [](const std::string& name) {
      return name;
    }) {
  SharedTensors tensors;
  for (const NamedTensor& each : parameters) {
    const std::string name = rename(each.name);
    if (name.empty()) continue;
    tensors.all.push_back({name, each.tensor.scalar_type(), each.tensor.sizes().vec()});
    tensors.own.push_back({.name = name, .values = each.tensor.detach().contiguous().view({-1})});
  }
  const TensorFileLayout layout(tensors.all);
  create_tensor_file(file, layout);
  write_parts(file, layout, tensors.own);
}

/// Llama in float64, as Hugging Face has it: halves of a head turn, and names are theirs.
class Llama {
 public:
  explicit Llama(const fs::path& folder) : file_(folder / kModelFile) {
    config_ = json::parse(test::read_file(folder / kLlamaConfig));
  }

  at::Tensor loss(const at::Tensor& ids, const at::Tensor& targets) const {
    at::Tensor x = of("model.embed_tokens.weight").index({ids});
    for (int layer = 0; layer < config_["num_hidden_layers"]; ++layer) {
      const std::string prefix = "model.layers." + std::to_string(layer) + ".";
      x = x + attend(prefix + "self_attn.", norm(prefix + "input_layernorm", x));
      const at::Tensor y = norm(prefix + "post_attention_layernorm", x);
      const at::Tensor gate = linear(prefix + "mlp.gate_proj", y);
      x = x + linear(prefix + "mlp.down_proj",
                     gate * gate.sigmoid() * linear(prefix + "mlp.up_proj", y));
    }
    const at::Tensor logits = linear("lm_head", norm("model.norm", x));
    return -logits.log_softmax(-1).gather(-1, targets.unsqueeze(-1)).mean();
  }

 private:
  at::Tensor of(const std::string& name) const { return file_.read(name).to(at::kDouble); }
  at::Tensor linear(const std::string& name, const at::Tensor& x) const {
    return x.matmul(of(name + ".weight").t());
  }
  at::Tensor norm(const std::string& name, const at::Tensor& x) const {
    const double eps = config_["rms_norm_eps"];
    return x / (x.pow(2).mean(-1, true) + eps).sqrt() * of(name + ".weight");
  }
  at::Tensor turned(const at::Tensor& x) const {  // (B, heads, T, d)
    const std::int64_t d = config_["head_dim"];
    const at::Tensor powers = at::arange(d / 2).to(at::kDouble) * (-2.0 / static_cast<double>(d));
    const at::Tensor frequencies = at::pow(config_["rope_theta"].get<double>(), powers);
    const at::Tensor angles = at::arange(x.size(2)).to(at::kDouble).unsqueeze(1) * frequencies;
    const at::Tensor whole = at::cat({angles, angles}, -1);
    const at::Tensor other = at::cat({-x.narrow(-1, d / 2, d / 2), x.narrow(-1, 0, d / 2)}, -1);
    return x * whole.cos() + other * whole.sin();
  }
  at::Tensor attend(const std::string& prefix, const at::Tensor& x) const {
    const std::int64_t heads = config_["num_attention_heads"], d = config_["head_dim"];
    std::vector<at::Tensor> qkv;
    for (const char* name : {"q_proj", "k_proj", "v_proj"}) {
      qkv.push_back(
          linear(prefix + name, x).view({x.size(0), x.size(1), heads, d}).transpose(1, 2));
    }
    at::Tensor scores =
        turned(qkv[0]).matmul(turned(qkv[1]).transpose(-1, -2)) / std::sqrt(static_cast<double>(d));
    scores = scores.masked_fill(at::ones({x.size(1), x.size(1)}, at::kBool).triu(1), -INFINITY);
    const at::Tensor mixed = scores.softmax(-1).matmul(qkv[2]).transpose(1, 2);
    return linear(prefix + "o_proj", mixed.reshape(x.sizes()));
  }

  SafetensorsFile file_;
  json config_;
};

class PretrainedWeightsTest : public testing::Test {
 protected:
  fs::path path(const char* name) const { return folder_.path() / name; }
  std::string refusal(const fs::path& path, const ModelConfig& config) const {
    return test::error_of<ConfigError>([&] { const PretrainedWeights weights(path, config); });
  }
  void export_weights() const {
    write_weights(path("own.safetensors"), model_.parameters());
    write_llama(SafetensorsFile(path("own.safetensors")), config_, path("llama"));
  }
  void change_config(const char* key, const json& value) const {
    json facts = json::parse(test::read_file(path("llama") / kLlamaConfig));
    facts[key] = value;
    std::ofstream(path("llama") / kLlamaConfig) << facts;
  }

  test::TemporaryFolder folder_;
  const ModelConfig config_ = toy();
  const std::shared_ptr<Attention> attention_ = test::load_plugin<Attention>("attention", "eager");
  const Transformer model_{config_, *attention_, 1};
};

TEST_F(PretrainedWeightsTest, LlamasFormulasGiveOurLossOfWhatIsExported) {
  export_weights();
  const at::Tensor ids = at::arange(2 * kTime).remainder(13).view({2, kTime});
  const at::Tensor targets = (ids * 5 + 2).remainder(13);
  EXPECT_NEAR(Llama(path("llama")).loss(ids, targets).item<double>(),
              model_.loss(ids, targets).item<double>(), 1e-6);
}

TEST_F(PretrainedWeightsTest, AreExportedBesideAHiddenFolderOfTheSameName) {
  folder_.write(".llama/mine", "kept");
  export_weights();
  EXPECT_EQ(folder_.read(".llama/mine"), "kept");
}

TEST_F(PretrainedWeightsTest, AreReadInBothLayoutsBitForBit) {
  export_weights();
  for (const fs::path& from : {path("own.safetensors"), path("llama")}) {
    const Transformer other(config_, *attention_, 2);
    const PretrainedWeights weights(from, config_);
    EXPECT_EQ(weights.load(other.parameters()), weights.hash());
    for (std::size_t i = 0; i < other.parameters().size(); ++i) {
      EXPECT_TRUE(at::equal(other.parameters()[i].tensor, model_.parameters()[i].tensor))
          << model_.parameters()[i].name;
    }
  }
}

TEST_F(PretrainedWeightsTest, LieInSeveralFilesBesideAnIndex) {
  fs::create_directory(path("two"));
  const auto only = [](bool head) {
    return [head](const std::string& name) {
      return (name == "lm_head.weight") == head ? name : std::string();
    };
  };
  write_weights(path("two") / "1.safetensors", model_.parameters(), only(true));
  write_weights(path("two") / "2.safetensors", model_.parameters(), only(false));
  const auto index = [&](const char* text) {
    std::ofstream(path("two") / "model.safetensors.index.json") << text;
  };
  index(R"({"weight_map": {"lm_head.weight": "1.safetensors", "x": "2.safetensors"}})");
  const Transformer other(config_, *attention_, 2);
  PretrainedWeights(path("two"), config_).load(other.parameters());
  EXPECT_TRUE(at::equal(other.parameters().back().tensor, model_.parameters().back().tensor));
  index(R"({"weight_map": {"lm_head.weight": "../own.safetensors"}})");
  EXPECT_THAT(refusal(path("two"), config_), HasSubstr("the index of weights cannot be read"));
  fs::copy_file(path("two") / "1.safetensors", path("two") / "3.safetensors");
  index(R"({"weight_map": {"a": "1.safetensors", "b": "2.safetensors", "c": "3.safetensors"}})");
  EXPECT_THAT(refusal(path("two"), config_), HasSubstr("have the same tensor"));
}

TEST_F(PretrainedWeightsTest, OfAnotherModelAreRefusedByName) {
  export_weights();
  ModelConfig wider = config_;
  wider.d_ff *= 2;
  EXPECT_THAT(refusal(path("own.safetensors"), wider),
              AllOf(HasSubstr("layers.0.ffn.w1.weight ["), HasSubstr("is needed")));
  ModelConfig deeper = config_;
  ++deeper.layers;
  EXPECT_THAT(refusal(path("own.safetensors"), deeper), HasSubstr(".ln1.weight is not there"));
  ModelConfig shallower = config_;
  --shallower.layers;
  EXPECT_THAT(refusal(path("own.safetensors"), shallower),
              HasSubstr("which the model does not have"));
  ModelConfig gelu = config_;
  gelu.activation = Activation::gelu;
  EXPECT_THAT(refusal(path("llama"), gelu), HasSubstr("Llama's layout has no such model"));
  EXPECT_THAT(refusal(path("nowhere"), config_), HasSubstr("there are no weights of that name"));
  at::Tensor integers = at::ones(model_.parameters()[0].tensor.sizes(), at::kInt);
  std::vector<NamedTensor> parameters = model_.parameters();
  parameters[0].tensor = integers;
  write_weights(path("integers.safetensors"), parameters);
  EXPECT_THAT(refusal(path("integers.safetensors"), config_),
              HasSubstr("token_embeddings.weight of Int"));
}

TEST_F(PretrainedWeightsTest, WhatConfigJsonSaysMustHold) {
  export_weights();
  change_config("num_key_value_heads", 1);
  EXPECT_THAT(refusal(path("llama"), config_),
              AllOf(HasSubstr("num_key_value_heads 1"), HasSubstr("grouped-query attention")));
  change_config("num_key_value_heads", config_.heads);
  change_config("rope_theta", 500000.0);
  EXPECT_THAT(refusal(path("llama"), config_), HasSubstr("rope_theta 500000.0"));
  change_config("rope_theta", config_.rope_theta);
  EXPECT_EQ(refusal(path("llama"), config_), "no error");
  std::ofstream(path("llama") / kLlamaConfig) << "{";
  EXPECT_THAT(refusal(path("llama"), config_), HasSubstr("parse error"));
}

TEST_F(PretrainedWeightsTest, ATiedHeadIsTheEmbedding) {
  ModelConfig tied = config_;
  tied.tie_embeddings = true;
  const Transformer model(tied, *attention_, 3);
  write_weights(path("tied.safetensors"), model.parameters(), [](const std::string& name) {
    return name == "lm_head.weight" ? std::string() : name;
  });
  write_llama(SafetensorsFile(path("tied.safetensors")), tied, path("llama"));
  const SafetensorsFile written(path("llama") / kModelFile);
  EXPECT_EQ(written.find("lm_head.weight"), nullptr);
  EXPECT_EQ(refusal(path("llama"), tied), "no error");
  EXPECT_THAT(refusal(path("llama"), config_), HasSubstr("tie_word_embeddings true"));
  EXPECT_THAT(test::error_of<ConfigError>([&] {
                write_llama(SafetensorsFile(path("tied.safetensors")), tied, path("llama"));
              }),
              HasSubstr("is there already"));
}

}  // namespace
}  // namespace ddprun::pretrained_weights_test
