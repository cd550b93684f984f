// The sizes of a transformer, and the presets of CS336, with the year in the name where years
// differ.
//
// Family: model_config.cpp model_parameters.cpp
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "ddprun/kernels/kernel_set.h"
#include "ddprun/model/recompute_config.h"

namespace ddprun {

class Options;

/// `model.unit`: what the parameters of a block are to strategies that work unit by unit.
enum class UnitSize {
  block,  ///< one unit
  layer,  ///< two: attention with its norm, and the feed-forward network with its
};
constexpr auto choice_names(UnitSize) { return std::array{"block", "layer"}; }

enum class Norm { rmsnorm, layernorm };
constexpr auto choice_names(Norm) { return std::array{"rmsnorm", "layernorm"}; }
enum class Positions { rope, learned };
constexpr auto choice_names(Positions) { return std::array{"rope", "learned"}; }
/// `swiglu` has three matrices, `gelu` two (the exact GELU, by the error function).
enum class Activation { swiglu, gelu };
constexpr auto choice_names(Activation) { return std::array{"swiglu", "gelu"}; }

struct ModelConfig {
  std::string preset = "tiny";
  std::int64_t vocab_size = 0;
  std::int64_t context_length = 0;
  std::int64_t d_model = 0;
  std::int64_t d_ff = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  double rope_theta = 10000.0;
  double norm_eps = 1e-5;
  KernelSet kernels = KernelSet::fused;
  RecomputeConfig recompute = {};
  UnitSize unit = UnitSize::block;
  /// The head's weight is the embedding's (Press and Wolf 2017), initialized as a head's is.
  bool tie_embeddings = false;
  /// Patterns of the names of parameters that are not trained.
  std::vector<std::string> frozen = {};
  /// Weights to begin with (pretrained_weights.h); empty: they are drawn.
  std::string init_from = {};
  // What differs from the course's block; with one of them `kernels` is reference.
  Norm norm = Norm::rmsnorm;
  Positions positions = Positions::rope;
  Activation activation = Activation::swiglu;
  bool bias = false;       ///< of linear layers but the head, and of LayerNorm
  bool joint_qkv = false;  ///< q, k and v are one matrix

  std::int64_t units_per_block() const { return unit == UnitSize::layer ? 2 : 1; }
  std::int64_t head_dim() const { return d_model / heads; }
  std::int64_t parameter_count() const;
  /// The key of what no fused kernel computes; empty: there is none.
  std::string beyond_fused() const;
};

/// All presets by name; the first is "tiny".
const std::vector<ModelConfig>& model_presets();

/// The preset of that name. Throws ConfigError listing all names.
ModelConfig model_preset(const std::string& name);

/// Declares the YAML section `model:`: first the preset, then each size, whose default is the
/// preset's.
void declare_options(Options& options, ModelConfig& config);

}  // namespace ddprun
