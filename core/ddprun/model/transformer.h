// The transformer language model of CS336 (section 3): pre-norm decoder, RMSNorm, RoPE, SwiGLU, no
// biases; the head is untied. The configuration may say otherwise, up to GPT-2's.
//
// Family: transformer.cpp reference_layers.cpp
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/model/fused_layers.h"
#include "ddprun/model/model_config.h"
#include "ddprun/model/recompute.h"
#include "ddprun/optim/named_tensor.h"
#include "ddprun/plugin/attention.h"

namespace ddprun {

/// Where samples hold several documents.
struct Documents {
  /// As AttentionOptions has it; undefined: each sample is one document.
  at::Tensor first_keys = {};
  /// What the sum of the losses is divided by; 0: the number of targets, which then all count.
  double divisor = 0;
};

/// Shapes: B batch, T time (<= context_length), V vocabulary. Used by one thread at a time.
class Transformer {
 public:
  /// Initializes from `seed` alone (CS336 section 3.4.1). Each parameter has its own counter-based
  /// stream, drawn on the CPU. So values depend neither on the rank count nor on the order of
  /// construction nor on the device. Without a seed every value is NaN. `attention` must outlive
  /// the model. Throws ConfigError if heads do not divide d_model, head_dim is odd, `recompute`
  /// does not fit the layers, or as model_parameters() does.
  Transformer(const ModelConfig& config, Attention& attention, std::optional<std::uint64_t> seed,
              c10::Device device = c10::kCPU);

  /// In registration order (that of the forward pass), named as in cs336_basics:
  /// token_embeddings.weight, layers.0.ln1.weight, layers.0.attn.{q,k,v,output}_proj.weight,
  /// layers.0.ln2.weight, layers.0.ffn.{w1,w3,w2}.weight, ..., ln_final.weight, lm_head.weight.
  /// Where the configuration asks for them position_embeddings.weight follows the first, a .bias
  /// its .weight, and attn.qkv_proj stands for three. The units are the embedding, each block (or
  /// its layers, as model.unit says), and the head with its norm. Fused kernels read the embedding
  /// and the norms in float32. What model.frozen names requires no gradient. With
  /// model.tie_embeddings lm_head.weight is the embedding's tensor once more.
  const std::vector<NamedTensor>& parameters() const { return parameters_; }

  /// Tells the fused kernels where to read parameters and write gradients: one slot a parameter, in
  /// registration order. Before this call they use the parameters' own memory.
  void use_memory(const std::vector<ParameterSlot>& slots);

  /// Sets how many logits the fused loss computes at a time. Before this call it is kLogitsOfCpu.
  void use_logits(const fused::LogitsAtATime& logits) { logits_at_a_time_ = logits; }

  /// x (..., in), weight (out, in): x weight^T (..., out), differentiable.
  using Linear = std::function<at::Tensor(const at::Tensor& x, const at::Tensor& weight)>;
  /// Sets what computes the blocks' projections where `kernels` is reference. Before this call it
  /// is at::linear. The head stays at::linear, as is customary where projections are computed in 8
  /// bits.
  void use_linear(Linear linear) { linear_ = std::move(linear); }

  /// Runs a part of the forward pass, which uses the parameters of one unit.
  using RunUnit = std::function<at::Tensor(int unit, const std::function<at::Tensor()>& forward)>;
  /// Sets what runs each unit of loss(): 0 is the embedding, then the blocks or their layers, then
  /// the head. Before this call they run as they are.
  void use_units(RunUnit run) { run_unit_ = std::move(run); }

  /// Sets what blocks are called within when backward computes them again (model.recompute): it
  /// switches the precision on. Before this call nothing is. The model then outlives the graphs of
  /// its losses.
  void use_as_in_forward(AsInForward as_in_forward) { as_in_forward_ = std::move(as_in_forward); }

  /// ids: (B, T) int64 in [0, V). Returns (B, T, V). ATen's operators compute them, whatever
  /// `kernels` says.
  at::Tensor logits(const at::Tensor& ids) const;

  /// Mean negative log-likelihood of targets (B, T) int64, a float32 scalar. With `documents`
  /// attention stays within them, and targets of -100 do not count. Throws ConfigError if fused
  /// kernels meet an autocast that use_memory() did not foresee.
  at::Tensor loss(const at::Tensor& ids, const at::Tensor& targets,
                  const Documents& documents = {}) const;
  /// The same by PyTorch's operators alone, whatever `kernels` and use_linear() say; attention and
  /// projections are PyTorch's, too. `format`: PrecisionDtypes::product_format(), in which products
  /// of 16 bits are computed here even where nothing but use_linear() did so.
  at::Tensor reference_loss(const at::Tensor& ids, const at::Tensor& targets,
                            const Documents& documents, const std::string& format) const;
  /// reference_loss() in float64 behind the embedding, whatever the precision says. Gradients are
  /// rounded to the dtype of what is read, and the embedding's are summed in it.
  at::Tensor exact_loss(const at::Tensor& ids, const at::Tensor& targets,
                        const Documents& documents = {}) const;

 private:
  /// What the matrix products read of a parameter, which may be its copy in their dtype: where
  /// ranks own parts, the parameter itself is then only whole in these. Differentiable with respect
  /// to the parameter.
  static at::Tensor read(const ParameterSlot& slot);
  /// x weight^T + bias, if there is one.
  static at::Tensor project(const Linear& linear, const at::Tensor& x, const fused::Weight& weight);
  at::Tensor embed(const at::Tensor& ids) const;
  /// As a unit.
  at::Tensor embedded(const at::Tensor& ids) const;
  at::Tensor norm(const at::Tensor& x, const fused::Weight& weight) const;
  at::Tensor rotate(const at::Tensor& x) const;
  /// Attention of q, k and v (B, heads, T, head_dim).
  using Mix =
      std::function<at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v)>;
  /// The attention plugin's forward.
  Mix mix_of_plugin(const at::Tensor& first_keys) const;
  /// What computes a block, where plugins may have their own, and the head.
  struct Operators {
    Mix mix;
    Linear linear, head;
    std::optional<at::ScalarType> stream = {};  ///< what the embedding is cast to
  };
  Operators operators(const at::Tensor& first_keys) const;
  /// PyTorch's.
  static Operators plain(const at::Tensor& first_keys);
  at::Tensor attend(const fused::Block& block, const at::Tensor& x, const Operators& by) const;
  at::Tensor feed_forward(const fused::Block& block, const at::Tensor& x,
                          const Linear& linear) const;
  /// The first unit of a block; of the block after the last, the head.
  int unit_of(std::int64_t block) const {
    return static_cast<int>(block * config_.units_per_block()) + 1;
  }
  at::Tensor logits_of(const at::Tensor& x, const Linear& linear) const;
  /// What one of a block's layers makes of the stream, which it must not write into.
  using Layer = std::function<at::Tensor(at::Tensor stream, const fused::Block& block)>;
  struct Layers {
    Layer attention, feed_forward;
  };
  Layers reference_layers(const Operators& by) const;
  at::Tensor loss_by(const Operators& by, const at::Tensor& ids, const at::Tensor& targets,
                     double divisor) const;
  at::Tensor through_block(at::Tensor stream, std::int64_t block, const Layers& layers) const;
  bool trains_blocks(std::int64_t first, std::int64_t last) const;
  at::Tensor through_blocks(const at::Tensor& stream, const Layers& layers) const;
  Layers fused_layers(const fused::Shape& shape, const Mix& mix) const;
  at::Tensor fused_loss(const at::Tensor& ids, const at::Tensor& targets,
                        const Documents& documents) const;

  ModelConfig config_;
  Attention& attention_;
  std::vector<RecomputedBlocks> recompute_;
  Linear linear_;
  RunUnit run_unit_;
  AsInForward as_in_forward_;
  std::vector<NamedTensor> parameters_;
  fused::Weight token_embeddings_, position_embeddings_, ln_final_, lm_head_;
  std::vector<fused::Block> blocks_;
  std::shared_ptr<fused::HeadGradientMemory> head_memory_;
  fused::LogitsAtATime logits_at_a_time_ = fused::kLogitsOfCpu;
  at::Tensor rotations_;  // (context_length, 1, head_dim / 2) complex64: RoPE's cos + i sin
};

}  // namespace ddprun
