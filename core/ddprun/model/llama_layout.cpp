// A table of names, and what config.json says.
#include "ddprun/model/llama_layout.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "ddprun/base/durable_file.h"
#include "ddprun/base/error.h"
#include "ddprun/base/json.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/regular_file.h"
#include "ddprun/checkpoint/checkpoint_state.h"
#include "ddprun/checkpoint/tensor_file.h"

namespace ddprun {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

using Name = std::pair<std::string_view, std::string_view>;
constexpr std::array kWhole = {Name{"token_embeddings.weight", kLlamaEmbeddings},
                               Name{"ln_final.weight", "model.norm.weight"},
                               Name{"lm_head.weight", "lm_head.weight"}};
constexpr std::array kOfBlock = {Name{"ln1.weight", "input_layernorm.weight"},
                                 Name{"attn.q_proj.weight", "self_attn.q_proj.weight"},
                                 Name{"attn.k_proj.weight", "self_attn.k_proj.weight"},
                                 Name{"attn.v_proj.weight", "self_attn.v_proj.weight"},
                                 Name{"attn.output_proj.weight", "self_attn.o_proj.weight"},
                                 Name{"ln2.weight", "post_attention_layernorm.weight"},
                                 Name{"ffn.w1.weight", "mlp.gate_proj.weight"},
                                 Name{"ffn.w3.weight", "mlp.up_proj.weight"},
                                 Name{"ffn.w2.weight", "mlp.down_proj.weight"}};
constexpr std::string_view kBlocks = "layers.";

template <std::size_t N>
std::string_view other_name(const std::array<Name, N>& names, std::string_view ours) {
  for (const auto& [own, llama] : names) {
    if (own == ours) return llama;
  }
  return {};
}

bool is_turned(const std::string& name) {
  return name.ends_with("attn.q_proj.weight") || name.ends_with("attn.k_proj.weight");
}

/// Swaps the two dimensions of rows within a head.
at::Tensor swapped(const at::Tensor& weight, std::int64_t heads, std::int64_t outer,
                   std::int64_t inner) {
  return weight.view({heads, outer, inner, -1}).transpose(1, 2).reshape(weight.sizes());
}

/// What config.json has for the model.
std::vector<std::pair<const char*, json>> facts_of(const ModelConfig& config) {
  return {{"hidden_size", config.d_model},
          {"intermediate_size", config.d_ff},
          {"num_hidden_layers", config.layers},
          {"num_attention_heads", config.heads},
          {"num_key_value_heads", config.heads},
          {"head_dim", config.head_dim()},
          {"vocab_size", config.vocab_size},
          {"rms_norm_eps", config.norm_eps},
          {"rope_theta", config.rope_theta},
          {"rope_scaling", nullptr},
          {"hidden_act", "silu"},
          {"attention_bias", false},
          {"mlp_bias", false},
          {"tie_word_embeddings", config.tie_embeddings}};
}

/// The text of config.json.
std::string llama_config(const ModelConfig& config) {
  json out = {{"architectures", {"LlamaForCausalLM"}},
              {"model_type", "llama"},
              {"max_position_embeddings", config.context_length},
              {"torch_dtype", "float32"}};
  for (const auto& [key, value] : facts_of(config)) out[key] = value;
  return json_text(out) + "\n";
}

/// In the order of the model.
SharedTensors llama_tensors(const SafetensorsFile& weights, const ModelConfig& config) {
  SharedTensors out;
  for (const TensorSpec& tensor : weights.tensors()) {
    const std::string name = llama_name(tensor.name).value();  // of a model that was checked
    out.all.push_back({name, at::kFloat, tensor.sizes});
    const at::Tensor weight = to_llama(tensor.name, weights.read(tensor.name), config);
    out.own.push_back({.name = name, .values = weight.to(at::kFloat).reshape({-1})});
  }
  return out;
}

}  // namespace

std::optional<std::string> llama_name(const std::string& name) {
  std::string_view found = other_name(kWhole, name);
  if (!found.empty()) return std::string(found);
  if (!name.starts_with(kBlocks)) return {};
  const std::size_t end = name.find('.', kBlocks.size());
  if (end == std::string::npos) return {};
  found = other_name(kOfBlock, std::string_view(name).substr(end + 1));
  if (found.empty()) return {};
  return fmt::format("model.{}.{}", std::string_view(name).substr(0, end), found);
}

at::Tensor from_llama(const std::string& name, const at::Tensor& weight,
                      const ModelConfig& config) {
  return is_turned(name) ? swapped(weight, config.heads, 2, config.head_dim() / 2) : weight;
}

at::Tensor to_llama(const std::string& name, const at::Tensor& weight, const ModelConfig& config) {
  return is_turned(name) ? swapped(weight, config.heads, config.head_dim() / 2, 2) : weight;
}

void check_is_llama(const ModelConfig& config, const std::string& where) {
  const std::string key = config.beyond_fused();
  if (key.empty()) return;
  throw ConfigError({.what = "Llama's layout has no such model",
                     .where = where,
                     .got = "model." + key,
                     .expected = "RMSNorm, RoPE, SwiGLU, no biases, and q, k and v one by one",
                     .hint = "the checkpoint itself has all parameters, under their own names"});
}

void check_llama_config(const std::filesystem::path& file, const ModelConfig& config) {
  std::vector<std::string> others;
  try {
    const json in = parse_json(read_whole(file));
    for (const auto& [key, value] : facts_of(config)) {
      const auto found = in.find(key);
      // What is not there is what such files mean by default, or what the shapes tell.
      if (found == in.end() || *found == value) continue;
      others.push_back(
          fmt::format("{} {}, and the model: section means {}", key, found->dump(), value.dump()));
    }
  } catch (const std::exception& error) {
    others = {error.what()};
  }
  if (others.empty()) return;
  throw ConfigError({.what = "the weights are of a model that this one is not",
                     .where = file.string(),
                     .got = list_text(others, "; "),
                     .expected = "as many heads of keys as of queries, and the sizes of `model:`",
                     .hint = "set the keys of `model:`; grouped-query attention and scaled "
                             "frequencies are not there"});
}

void write_llama(const SafetensorsFile& weights, const ModelConfig& config,
                 const fs::path& folder) {
  check_is_llama(config, weights.path().string());
  if (fs::exists(folder)) {
    throw ConfigError({.what = "a folder to write weights to is there already",
                       .where = folder.string(),
                       .got = "a file or a folder of that name",
                       .expected = "a new folder",
                       .hint = "name another one, or remove it"});
  }
  // A name that nobody else gives: what stands there is of an export that was cut short.
  const fs::path hidden =
      folder.parent_path() / ("." + folder.filename().string() + ".ddprun-unfinished");
  fs::remove_all(hidden);
  fs::create_directories(hidden);
  write_tensor_file(hidden / kModelFile, llama_tensors(weights, config));
  if (const int error = write_durably(hidden / kLlamaConfig, llama_config(config))) {
    throw std::system_error(error, std::generic_category(), (hidden / kLlamaConfig).string());
  }
  fs::rename(hidden, folder);
}

}  // namespace ddprun
