// The model's parameters, its blocks one after another, and its loss. It computes by ATen's
// operators, so that autograd and autocast apply as in PyTorch, or by fused layers.
#include "ddprun/model/transformer.h"

#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/polar.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/GradMode.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "ddprun/base/error.h"
#include "ddprun/base/ranges.h"
#include "ddprun/memory/memory_label.h"
#include "ddprun/model/initialization.h"
#include "ddprun/model/model_parameters.h"

namespace ddprun {

namespace {

void check_sizes(const ModelConfig& config) {
  const bool turns = config.positions == Positions::rope;
  if (config.heads < 1 || config.d_model % config.heads != 0 ||
      (turns && config.head_dim() % 2 != 0)) {
    throw ConfigError(
        {.what = "the attention heads do not fit the model's width",
         .where = "model",
         .got = "d_model " + std::to_string(config.d_model) + ", heads " +
                std::to_string(config.heads),
         .expected = "heads that divide d_model into parts of an even size (RoPE turns pairs)",
         .hint = "change model.d_model or model.heads"});
  }
}

at::Tensor initial_values(const ModelParameter& planned, std::optional<std::uint64_t> seed,
                          c10::Device device) {
  if (device.is_meta()) return at::empty(planned.sizes, device);  // sizes are all there is
  at::Tensor values;
  if (!seed) {
    values = empty_parameter(planned.sizes).to(device);
    return values.fill_(std::numeric_limits<float>::quiet_NaN());
  }
  values = planned.std == 0 ? at::full(planned.sizes, planned.mean, at::kFloat)
                            : truncated_normal(planned.sizes, planned.std, *seed, planned.name);
  return values.to(device);
}

// Position p turns pair k of a head by the angle p * theta^(-2k / head_dim); computed in double,
// kept in float.
at::Tensor rope_rotations(const ModelConfig& config) {
  const at::Tensor pairs = at::arange(config.head_dim() / 2, at::kDouble);
  const at::Tensor frequency =
      (pairs * (-2.0 / static_cast<double>(config.head_dim()) * std::log(config.rope_theta))).exp();
  const at::Tensor position = at::arange(config.context_length, at::kDouble);
  const at::Tensor angle = position.view({-1, 1, 1}) * frequency;
  return at::polar(angle.new_ones({1}), angle).to(at::kComplexFloat);
}

}  // namespace

Transformer::Transformer(const ModelConfig& config, Attention& attention,
                         std::optional<std::uint64_t> seed, c10::Device device)
    : config_(config),
      attention_(attention),
      recompute_(recompute_plan(config.recompute, config.layers)),
      run_unit_([](int, const std::function<at::Tensor()>& forward) { return forward(); }),
      as_in_forward_([](const std::function<at::Tensor()>& part) { return part(); }),
      head_memory_(std::make_shared<fused::HeadGradientMemory>()) {
  const std::vector<ModelParameter> planned = model_parameters(config);
  check_sizes(config);
  TORCH_CHECK(config.kernels == KernelSet::reference || config.beyond_fused().empty(),
              "fused kernels have no ", config.beyond_fused());
  const c10::NoGradGuard no_grad;
  for (const ModelParameter& each : planned) {
    const at::Tensor values = initial_values(each, seed, device).requires_grad_(each.trained);
    parameters_.push_back({each.name, values, each.unit, each.read_in_float32});
  }
  if (config.tie_embeddings) {
    parameters_.push_back({"lm_head.weight", parameters_.front().tensor, "head"});
  }
  use_memory(mapped(parameters_, [](const NamedTensor& each) {
    return ParameterSlot{.parameter = each.tensor, .compute = {}, .gradient = {}};
  }));
  rotations_ = rope_rotations(config).to(device);
}

void Transformer::use_memory(const std::vector<ParameterSlot>& slots) {
  TORCH_CHECK(slots.size() == parameters_.size(), "one slot for each of ", parameters_.size(),
              " parameters, not ", slots.size());
  std::map<std::string, fused::Weight*> weights = {{"token_embeddings", &token_embeddings_},
                                                   {"position_embeddings", &position_embeddings_},
                                                   {"ln_final", &ln_final_},
                                                   {"lm_head", &lm_head_}};
  blocks_.resize(config_.layers);
  for (std::size_t layer = 0; layer < blocks_.size(); ++layer) {
    const std::string prefix = "layers." + std::to_string(layer) + ".";
    fused::Block& block = blocks_[layer];
    weights.insert({{prefix + "ln1", &block.ln1},
                    {prefix + "attn.qkv_proj", &block.q},
                    {prefix + "attn.q_proj", &block.q},
                    {prefix + "attn.k_proj", &block.k},
                    {prefix + "attn.v_proj", &block.v},
                    {prefix + "attn.output_proj", &block.output},
                    {prefix + "ln2", &block.ln2},
                    {prefix + "ffn.w1", &block.w1},
                    {prefix + "ffn.w3", &block.w3},
                    {prefix + "ffn.w2", &block.w2}});
  }
  for (std::size_t index = 0; index < slots.size(); ++index) {
    const std::string& name = parameters_[index].name;
    const std::size_t dot = name.rfind('.');
    fused::Weight& weight = *weights.at(name.substr(0, dot));
    if (name.substr(dot) == ".bias") {
      weight.bias = slots[index].parameter;
    } else {
      static_cast<ParameterSlot&>(weight) = slots[index];
    }
  }
}

at::Tensor Transformer::through_block(at::Tensor stream, std::int64_t block,
                                      const Layers& layers) const {
  const MemoryLabel unit("layers", block);
  const fused::Block& weights = blocks_[block];
  const auto attention = [&] { return layers.attention(std::move(stream), weights); };
  if (config_.unit == UnitSize::block) {
    return run_unit_(unit_of(block), [&] { return layers.feed_forward(attention(), weights); });
  }
  at::Tensor x = run_unit_(unit_of(block), attention);
  return run_unit_(unit_of(block) + 1, [&] { return layers.feed_forward(std::move(x), weights); });
}

at::Tensor Transformer::through_blocks(const at::Tensor& stream, const Layers& layers) const {
  const Blocks blocks = [this, layers](const at::Tensor& in, std::int64_t first,
                                       std::int64_t last) {
    at::Tensor x = in;
    for (std::int64_t block = first; block < last; ++block) {
      x = through_block(std::move(x), block, layers);
    }
    return x;
  };
  at::Tensor x = stream;
  std::int64_t next = 0;
  for (const RecomputedBlocks& group : recompute_) {
    x = blocks(x, next, group.first);
    // Without a gradient to compute there is nothing to compute again.
    const bool needed = x.requires_grad() || trains_blocks(group.first, group.last);
    x = needed ? recomputed(x, group, blocks, as_in_forward_) : blocks(x, group.first, group.last);
    next = group.last;
  }
  return blocks(x, next, config_.layers);
}

bool Transformer::trains_blocks(std::int64_t first, std::int64_t last) const {
  for (std::int64_t block = first; block < last; ++block) {
    const std::string prefix = "layers." + std::to_string(block) + ".";
    const bool trains = std::ranges::any_of(parameters_, [&](const NamedTensor& each) {
      return each.name.starts_with(prefix) && each.tensor.requires_grad();
    });
    if (trains) return true;
  }
  return false;
}

at::Tensor Transformer::embedded(const at::Tensor& ids) const {
  return run_unit_(0, [&] {
    const MemoryLabel label({.unit = "token_embeddings", .operation = "embedding"});
    return embed(ids);
  });
}

at::Tensor Transformer::loss(const at::Tensor& ids, const at::Tensor& targets,
                             const Documents& documents) const {
  return config_.kernels == KernelSet::fused
             ? fused_loss(ids, targets, documents)
             : loss_by(operators(documents.first_keys), ids, targets, documents.divisor);
}

Transformer::Layers Transformer::fused_layers(const fused::Shape& shape, const Mix& mix) const {
  return {.attention =
              [shape, mix](const at::Tensor& stream, const fused::Block& block) {
                const auto [q, k, v] = fused::attention_input(stream, block, shape);
                return fused::attention_output(stream, mix(q, k, v), block, shape);
              },
          .feed_forward =
              [shape](const at::Tensor& stream, const fused::Block& block) {
                return fused::feed_forward(stream, block, shape);
              }};
}

at::Tensor Transformer::fused_loss(const at::Tensor& ids, const at::Tensor& targets,
                                   const Documents& documents) const {
  const at::Tensor& weight = lm_head_.weight();
  const at::DeviceType device = weight.is_cuda() ? at::kCUDA : at::kCPU;
  const at::ScalarType autocast = at::autocast::get_autocast_dtype(device);
  if (at::autocast::is_autocast_enabled(device) && autocast != weight.scalar_type()) {
    throw ConfigError({.what = "the fused kernels do not follow autocast",
                       .where = "model.kernels",
                       .got = std::string("autocast to ") + at::toString(autocast),
                       .expected = "a precision whose dtypes() say so",
                       .hint = "set `kernels: reference` under `model:`"});
  }
  const fused::Shape shape{.batch = ids.size(0),
                           .time = ids.size(1),
                           .heads = config_.heads,
                           .norm_eps = static_cast<float>(config_.norm_eps),
                           .rotations = at::view_as_real(rotations_.squeeze(1))};
  const at::Tensor embedded = run_unit_(0, [&] {
    const MemoryLabel label({.unit = "token_embeddings", .operation = "embedding"});
    return fused::embedding(token_embeddings_, ids.flatten());
  });
  // (B * T, d_model)
  const at::Tensor x =
      through_blocks(embedded, fused_layers(shape, mix_of_plugin(documents.first_keys)));
  const double divisor =
      documents.divisor != 0 ? documents.divisor : static_cast<double>(targets.numel());
  return run_unit_(unit_of(config_.layers), [&] {
    const MemoryLabel unit("head", -1);
    return fused::head_loss(x, ln_final_, lm_head_, {targets.flatten(), divisor}, shape.norm_eps,
                            head_memory_, logits_at_a_time_);
  });
}

}  // namespace ddprun
