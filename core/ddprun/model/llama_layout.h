// The transformer's weights in the layout of Hugging Face's Llama: other names, and q and k turned
// by halves of a head instead of pairs.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <optional>
#include <string>

#include "ddprun/checkpoint/safetensors.h"
#include "ddprun/model/model_config.h"

namespace ddprun {

/// "layers.0.attn.q_proj.weight" -> "model.layers.0.self_attn.q_proj.weight". Nothing: Llama has no
/// such parameter.
std::optional<std::string> llama_name(const std::string& name);
/// The first name that such a file has.
inline constexpr const char* kLlamaEmbeddings = "model.embed_tokens.weight";
/// The file beside the weights that has the sizes.
inline constexpr const char* kLlamaConfig = "config.json";

/// A parameter, by our name, from that layout to ours, and back. The rows of q and k change places:
/// row i of a head turns with row i + d/2 there (rotate_half), row 2i with 2i + 1 here (Su et al.
/// 2021, RoFormer).
at::Tensor from_llama(const std::string& name, const at::Tensor& weight, const ModelConfig& config);
at::Tensor to_llama(const std::string& name, const at::Tensor& weight, const ModelConfig& config);

/// Throws ConfigError if the model is none that Llama's layout can hold.
void check_is_llama(const ModelConfig& config, const std::string& where);
/// Writes such a folder: config.json, and all parameters of `weights`, a file of ours, in float32.
/// Throws ConfigError if `folder` is there, or the model is no Llama; Error if it cannot be
/// written.
void write_llama(const SafetensorsFile& weights, const ModelConfig& config,
                 const std::filesystem::path& folder);
/// Throws ConfigError unless `file`, a config.json, says of the model what `config` does.
void check_llama_config(const std::filesystem::path& file, const ModelConfig& config);

}  // namespace ddprun
