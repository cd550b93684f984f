// The layers in ATen's operators, one by one: the course's, and those of GPT-2.
#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
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

namespace ddprun {

namespace {

/// From the copy that was read to the parameter.
struct CopyBackward final : torch::autograd::Node {
  std::string name() const override { return "CopyBackward"; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    return {gradients[0].to(at::kFloat)};
  }
};

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

}  // namespace ddprun
