// The presets, their parameter counts, and the YAML section `model:`.
#include "ddprun/model/model_config.h"

#include <algorithm>

#include "ddprun/base/error.h"
#include "ddprun/base/options.h"
#include "ddprun/base/ranges.h"

namespace ddprun {

namespace {

constexpr std::int64_t kMaxSize = std::int64_t{1}
                                  << 24;  // far above any model; keeps products within 64 bits

std::vector<std::string> preset_names() { return mapped(model_presets(), &ModelConfig::preset); }

struct SizeOption {
  const char* key;
  std::int64_t ModelConfig::*member;
  const char* help;
};

constexpr SizeOption kSizes[] = {
    {"vocab_size", &ModelConfig::vocab_size, "number of distinct tokens"},
    {"context_length", &ModelConfig::context_length, "tokens in a sequence"},
    {"d_model", &ModelConfig::d_model, "width of the residual stream; a multiple of heads"},
    {"d_ff", &ModelConfig::d_ff, "inner width of the feed-forward network"},
    {"layers", &ModelConfig::layers, "number of transformer blocks"},
    {"heads", &ModelConfig::heads, "attention heads; with RoPE d_model / heads must be even"},
};

/// GPT-2's block (Radford et al. 2019): LayerNorm, biases, learned positions, GELU.
ModelConfig as_gpt2(ModelConfig config, bool tied) {
  config.kernels = KernelSet::reference;
  config.tie_embeddings = tied;
  config.norm = Norm::layernorm;
  config.positions = Positions::learned;
  config.activation = Activation::gelu;
  config.bias = config.joint_qkv = true;
  return config;
}

}  // namespace

const std::vector<ModelConfig>& model_presets() {
  // The course leaves the context open (128 to 1024); the default is the shortest.
  static const std::vector<ModelConfig> presets = {
      // preset, vocab_size, context_length, d_model, d_ff, layers, heads
      {"tiny", 10000, 128, 256, 1024, 4, 4},
      {"small", 10000, 128, 768, 3072, 12, 12},
      {"medium", 10000, 128, 1024, 4096, 24, 16},
      {"large", 10000, 128, 1280, 5120, 36, 20},
      {"xl-2025", 10000, 128, 1600, 6400, 48, 25},
      {"2.7B-2025", 10000, 128, 2560, 10240, 32, 32},
      {"xl-2026", 10000, 128, 2560, 10240, 32, 32},
      {"10B-2026", 10000, 128, 4608, 12288, 50, 36},
      {"8B-leaderboard", 151936, 32768, 4096, 11008, 34, 32},
      // As large as the laptop model of a write-up, in the course's 12 * 9 + 3 = 111 tensors. With
      // d_ff a multiple of 8, the nearest size is 70,873,600.
      {"laptop-70m", 32000, 512, 512, 1384, 12, 8},
      // That model itself: 70,859,776 parameters in 12 * 12 + 5 = 149 tensors.
      as_gpt2({"laptop-gpt2", 32000, 512, 512, 2048, 12, 8}, /*tied=*/false),
      as_gpt2({"gpt2", 50257, 1024, 768, 3072, 12, 12}, /*tied=*/true),
      // The `small` of the comparison with PyTorch in Python.
      {"peer-small", 10000, 256, 512, 1344, 8, 8},
  };
  return presets;
}

ModelConfig model_preset(const std::string& name) {
  const auto& presets = model_presets();
  const auto found = std::ranges::find(presets, name, &ModelConfig::preset);
  if (found != presets.end()) return *found;
  throw ConfigError({.what = "there is no model preset of that name",
                     .where = "model.preset",
                     .got = name,
                     .expected = list_text(preset_names()),
                     .hint = "any size of a preset can be changed beside it, such as `layers: 2`"});
}

std::string ModelConfig::beyond_fused() const {
  if (norm != Norm::rmsnorm) return "norm";
  if (positions != Positions::rope) return "positions";
  if (activation != Activation::swiglu) return "activation";
  if (bias) return "bias";
  return joint_qkv ? "joint_qkv" : "";
}

void declare_options(Options& options, ModelConfig& config) {
  const bool given =
      options.option("preset", &config.preset, "sizes to start from; each can be changed below",
                     {.one_of = preset_names()});
  const ModelConfig preset = model_preset(config.preset);
  if (given) config = preset;
  for (const auto& [key, member, help] : kSizes) {
    if (config.*member == 0) config.*member = preset.*member;  // a ModelConfig as constructed
    options.option(key, &(config.*member), help, {.min = 1, .max = kMaxSize});
  }
  options.option("rope_theta", &config.rope_theta, "base of the rotary position frequencies",
                 {.min = 1.0});
  options.option("norm_eps", &config.norm_eps,
                 "added to the mean square in RMSNorm, to the variance in LayerNorm",
                 {.min = 0.0, .max = 1.0});
  options.option("kernels", &config.kernels,
                 "fused kernels of our own, or PyTorch's operators one by one (reference)");
  options.option("norm", &config.norm, "norm before each layer and the head");
  options.option("positions", &config.positions, "turned q and k, or a vector for each position");
  options.option("activation", &config.activation,
                 "of the feed-forward network: three matrices (swiglu) or two");
  options.option("bias", &config.bias, "linear layers but the head, and LayerNorm, add a bias");
  options.option("joint_qkv", &config.joint_qkv, "q, k and v are projected by one matrix");
  options.option("tie_embeddings", &config.tie_embeddings,
                 "the head's weight is the embedding's, one parameter");
  options.option(
      "frozen", &config.frozen,
      "names of parameters that are not trained, with wildcards, in quotes: \"layers.0.*\"");
  options.option("init_from", &config.init_from,
                 "weights to begin with: a checkpoint, a file of safetensors or torch.save, or a "
                 "folder with a Llama "
                 "of Hugging Face; empty: drawn");
  declare_option(options, config.recompute);
  options.option("unit", &config.unit,
                 "what sharding strategies gather and send at a time: a block, or its attention "
                 "and its feed-forward network one by one (layer)");
}

}  // namespace ddprun
