// The layers in ATen's operators, one by one: the course's, and those of GPT-2. The losses by them.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/GradMode.h>
#include <c10/core/ScalarType.h>
#include <torch/csrc/autograd/functions/utils.h>

#include "ddprun/base/torch_versions.h"
#include "ddprun/memory/memory_label.h"
#include "ddprun/model/transformer.h"
#include "ddprun/plugin/called.h"
#include "ddprun/plugin/parts/autocast.h"
#include "ddprun/plugin/parts/kernel_node.h"

namespace ddprun {

namespace {

/// From the copy that was read to the parameter.
struct CopyBackward final : torch::autograd::Node {
  std::string name() const override { return "CopyBackward"; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return {gradients[0].to(at::kFloat)};
  }
};

struct LinearInDoubleBackward final : KernelNode {
  std::string name() const override { return "LinearInDoubleBackward"; }
  torch::autograd::variable_list backward(torch::autograd::variable_list&& gradients) override {
    const auto [x, weight] = saved<2>();
    const at::Tensor& dy = gradients[0];
    const at::Tensor dx =
        should_compute_output(0) ? at::matmul(dy, weight.to(at::kDouble)) : at::Tensor();
    if (!should_compute_output(1)) return {dx, {}};
    const at::Tensor dw = at::mm(dy.flatten(0, -2).t(), x.flatten(0, -2));
    return {dx, dw.to(weight.scalar_type())};
  }
  bool backward_overwrites() const override { return false; }
  std::string alternative() const override { return "take PyTorch's linear"; }
};

/// x weight^T (..., out) of x (..., in) in float64 and weight (out, in) in another dtype, which is
/// cast anew in backward: copies of all weights would take twice the memory of the model, or more
/// where a rank has a part of it. Differentiable once.
at::Tensor linear_in_double(const at::Tensor& x, const at::Tensor& weight) {
  const auto node = make_node<LinearInDoubleBackward>(x, weight);
  at::Tensor y;
  {
    const KernelGuard guard;
    y = at::linear(x, weight.to(at::kDouble));
  }
  if (!node) return y;
  torch::autograd::set_history(y, node);
  node->save({x, weight});
  return y;
}

at::Tensor plain_linear(const at::Tensor& x, const at::Tensor& weight) {
  return at::linear(x, weight);
}

/// By PyTorch's operator. Documents need a mask, which says all of it.
at::Tensor plain_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const at::Tensor& first_keys) {
  if (!first_keys.defined()) {
    return at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true);
  }
  const at::Tensor places = at::arange(k.size(2), first_keys.options());
  const at::Tensor seen = (places >= first_keys.unsqueeze(-1)) & (places <= places.unsqueeze(-1));
  return at::scaled_dot_product_attention(q, k, v, seen.unsqueeze(1));
}

}  // namespace

at::Tensor Transformer::read(const ParameterSlot& slot) {
  if (!slot.compute.defined()) return slot.parameter;
  at::Tensor copy = slot.compute.variable_data();
  if (!c10::GradMode::is_enabled() || !slot.trained()) return copy;
  const NodePointer<CopyBackward> node = new_node<CopyBackward>();
  node->set_next_edges(torch::autograd::collect_next_edges(slot.parameter));
  torch::autograd::set_history(copy, node);
  return copy;
}

at::Tensor Transformer::project(const Linear& linear, const at::Tensor& x,
                                const fused::Weight& weight) {
  const at::Tensor y = linear(x, read(weight));
  return weight.bias.defined() ? y + weight.bias.to(y.scalar_type()) : y;
}

at::Tensor Transformer::embed(const at::Tensor& ids) const {
  const at::Tensor tokens = at::embedding(token_embeddings_.parameter, ids);  // (B, T, d_model)
  const at::Tensor& positions = position_embeddings_.parameter;
  if (!positions.defined()) return tokens;
  return tokens + positions.narrow(0, 0, ids.size(1));
}

// In float32 at least, whatever x's dtype.
at::Tensor Transformer::norm(const at::Tensor& x, const fused::Weight& weight) const {
  const MemoryLabel label("norm");
  const at::Tensor wide = x.to(at::promote_types(x.scalar_type(), at::kFloat));
  if (config_.norm == Norm::layernorm) {
    const auto own = [&](const at::Tensor& each) {
      return each.defined() ? each.to(wide.scalar_type()) : each;
    };
    return at::layer_norm(wide, {config_.d_model}, own(weight.parameter), own(weight.bias),
                          config_.norm_eps)
        .to(x.scalar_type());
  }
  const at::Tensor inverse_rms = wide.square().mean(-1, true).add(config_.norm_eps).rsqrt();
  return (wide * inverse_rms * weight.parameter).to(x.scalar_type());
}

// RoPE (Su et al. 2021) on neighbouring pairs of x (B, T, heads, head_dim): each pair is a complex
// number, turned by one complex product, in float32 at least, whatever x's dtype.
at::Tensor Transformer::rotate(const at::Tensor& x) const {
  const MemoryLabel label("rope");
  const at::Tensor pairs = at::view_as_complex(
      x.to(at::promote_types(x.scalar_type(), at::kFloat)).unflatten(-1, {-1, 2}));
  const at::Tensor turned = pairs * rotations_.narrow(0, 0, x.size(1));
  return at::view_as_real(turned).flatten(-2).to(x.scalar_type());
}

Transformer::Mix Transformer::mix_of_plugin(const at::Tensor& first_keys) const {
  return [this, first_keys](const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    const MemoryLabel label("attention");
    return called_forward(attention_, q, k, v, {.causal = true, .first_keys = first_keys});
  };
}

at::Tensor Transformer::attend(const fused::Block& block, const at::Tensor& x,
                               const Operators& by) const {
  const auto heads = [&](const at::Tensor& y) {
    return y.unflatten(-1, {config_.heads, config_.head_dim()});
  };
  const auto turned = [&](const at::Tensor& y) {
    return config_.positions == Positions::rope ? rotate(y) : y;
  };
  const auto from = [&](const fused::Weight& weight) {
    const MemoryLabel label("qkv");
    return project(by.linear, x, weight);
  };
  at::Tensor q, k, v;  // (B, heads, T, head_dim)
  if (config_.joint_qkv) {
    const std::vector<at::Tensor> parts = from(block.q).chunk(3, -1);
    q = turned(heads(parts[0])).transpose(1, 2);
    k = turned(heads(parts[1])).transpose(1, 2);
    v = heads(parts[2]).transpose(1, 2);
  } else {
    q = turned(heads(from(block.q))).transpose(1, 2);
    k = turned(heads(from(block.k))).transpose(1, 2);
    v = heads(from(block.v)).transpose(1, 2);
  }
  const at::Tensor mixed = by.mix(q, k, v);
  const MemoryLabel label("output");
  return project(by.linear, mixed.transpose(1, 2).flatten(2), block.output);
}

at::Tensor Transformer::feed_forward(const fused::Block& block, const at::Tensor& x,
                                     const Linear& linear) const {
  // These are separate statements, not operands of one: autograd runs backward in the reverse of
  // this order, which must be that of the flat buffers.
  const auto projected = [&](const char* name, const at::Tensor& in, const fused::Weight& weight) {
    const MemoryLabel label(name);
    return project(linear, in, weight);
  };
  const auto activated = [&](const auto& compute) {
    const MemoryLabel label("activation");
    return compute();
  };
  const at::Tensor first = projected("w1w3", x, block.w1);
  if (config_.activation == Activation::gelu) {
    return projected("w2", activated([&] { return at::gelu(first); }), block.w2);
  }
  const at::Tensor gate = activated([&] { return at::silu(first); });
  const at::Tensor up = projected("w1w3", x, block.w3);
  return projected("w2", activated([&] { return gate * up; }), block.w2);
}

Transformer::Layers Transformer::reference_layers(const Operators& by) const {
  const auto added = [](const at::Tensor& x, const at::Tensor& branch) {
    const MemoryLabel label("residual");
    return x + branch;
  };
  return {.attention =
              [this, added, by](const at::Tensor& x, const fused::Block& block) {
                return added(x, attend(block, norm(x, block.ln1), by));
              },
          .feed_forward =
              [this, added, linear = by.linear](const at::Tensor& x, const fused::Block& block) {
                return added(x, feed_forward(block, norm(x, block.ln2), linear));
              }};
}

at::Tensor Transformer::logits_of(const at::Tensor& x, const Linear& linear) const {
  return linear(norm(x, ln_final_), read(lm_head_));
}

at::Tensor Transformer::logits(const at::Tensor& ids) const {
  const at::Tensor x = through_blocks(embedded(ids), reference_layers(operators({})));
  return run_unit_(unit_of(config_.layers), [&] { return logits_of(x, plain_linear); });
}

Transformer::Operators Transformer::operators(const at::Tensor& first_keys) const {
  return {.mix = mix_of_plugin(first_keys),
          .linear = linear_ ? linear_ : plain_linear,
          .head = plain_linear};
}

Transformer::Operators Transformer::plain(const at::Tensor& first_keys) {
  return {.mix = [first_keys](const at::Tensor& q, const at::Tensor& k,
                              const at::Tensor& v) { return plain_attention(q, k, v, first_keys); },
          .linear = plain_linear,
          .head = plain_linear};
}

at::Tensor Transformer::reference_loss(const at::Tensor& ids, const at::Tensor& targets,
                                       const Documents& documents,
                                       const std::string& format) const {
  Operators by = plain(documents.first_keys);
  if (format == "bfloat16" || format == "float16") {
    const at::ScalarType dtype = format == "bfloat16" ? at::kBFloat16 : at::kHalf;
    // Held in each product, as backward may compute blocks again, when only the precision's is.
    by.linear = by.head = [dtype](const at::Tensor& x, const at::Tensor& weight) {
      const AutocastGuard guard(x.device().type(), dtype);
      return at::linear(x, weight);
    };
  }
  return loss_by(by, ids, targets, documents.divisor);
}

at::Tensor Transformer::exact_loss(const at::Tensor& ids, const at::Tensor& targets,
                                   const Documents& documents) const {
  Operators by = plain(documents.first_keys);
  by.linear = by.head = linear_in_double;
  by.stream = at::kDouble;
  return loss_by(by, ids, targets, documents.divisor);
}

at::Tensor Transformer::loss_by(const Operators& by, const at::Tensor& ids,
                                const at::Tensor& targets, double divisor) const {
  at::Tensor x = embedded(ids);
  if (by.stream) x = x.to(*by.stream);
  x = through_blocks(x, reference_layers(by));
  return run_unit_(unit_of(config_.layers), [&] {
    const MemoryLabel unit("head", -1), label("loss");
    at::Tensor logits = logits_of(x, by.head).flatten(0, 1);
    logits = logits.to(at::promote_types(logits.scalar_type(), at::kFloat));
    if (divisor == 0) return at::cross_entropy_loss(logits, targets.flatten());
    return at::cross_entropy_loss(logits, targets.flatten(), {}, at::Reduction::Sum) / divisor;
  });
}

}  // namespace ddprun
