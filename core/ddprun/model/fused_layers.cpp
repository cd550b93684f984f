// The fused layers: forward, and the node that holds what backward needs.
#include "ddprun/model/fused_layers.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "ddprun/kernels/side_by_side.h"
#include "ddprun/memory/memory_label.h"
#include "ddprun/model/fused_node.h"
#include "ddprun/model/fused_ops.h"

namespace ddprun::fused {

namespace {

using torch::autograd::set_history;
using torch::autograd::variable_list;

/// (rows, heads * head_dim) <-> (batch, heads, time, head_dim), as views where memory allows.
at::Tensor split_heads(const at::Tensor& x, const Shape& shape) {
  return x.unflatten(0, {shape.batch, shape.time}).unflatten(2, {shape.heads, -1}).transpose(1, 2);
}
at::Tensor join_heads(const at::Tensor& x) { return x.transpose(1, 2).flatten(2).flatten(0, 1); }

/// The gradients of q, k and v as vkq (rows, 3 * d_model), to be overwritten: where they lie, if
/// they lie so and nobody else holds them, or a copy.
at::Tensor join_gradients(variable_list&& gradients, const at::Tensor& like, const Shape& shape) {
  const std::int64_t width = like.size(1);
  const auto ours = [&](const at::Tensor& gradient) {
    return gradient.defined() && gradient.scalar_type() == like.scalar_type() &&
           gradient.use_count() == 1 && gradient.storage().use_count() == 3;
  };
  const bool in_place = std::ranges::all_of(gradients, ours) &&
                        kernels::side_by_side(gradients[0], gradients[1], gradients[2]);
  if (in_place) return gradients[2].as_strided({like.size(0), 3 * width}, {3 * width, 1});
  at::Tensor dvkq = at::empty({like.size(0), 3 * width}, like.options());
  for (const int output : {0, 1, 2}) {  // q, k, v into columns v, k, q
    at::Tensor part = split_heads(dvkq.narrow(1, (2 - output) * width, width), shape);
    if (gradients[output].defined()) {
      part.copy_(gradients[output]);
    } else {
      part.zero_();
    }
  }
  return dvkq;
}

/// RoPE of k and q within vkq (rows, 3 * d_model).
void rotate(const at::Tensor& vkq, const Shape& shape, bool inverse) {
  const MemoryLabel label("rope");
  const std::int64_t width = vkq.size(1) / 3;
  rope(vkq.narrow(1, width, 2 * width), width / shape.heads, shape.time, shape.rotations, inverse);
}

/// Returns compute(), an operation of that name.
template <class Compute>
auto labelled(const char* operation, const Compute& compute) {
  const MemoryLabel label(operation);
  return compute();
}

/// `sum`: stream + branch.
void add_to_stream(const at::Tensor& stream, const at::Tensor& branch, at::Tensor& sum) {
  const MemoryLabel label("residual");
  add_branch(stream, branch, sum);
}

struct EmbeddingNode final : FusedNode {
  ParameterSlot table;

  std::string name() const override { return "FusedEmbeddingBackward"; }
  variable_list backward(variable_list&& gradients) override {
    const auto [ids] = saved<1>();
    embedding_backward(gradients[0].contiguous(), ids, table);
    return {at::Tensor()};
  }
};

struct AttentionInputNode final : FusedNode {
  Block block;
  Shape shape;

  std::string name() const override { return "FusedAttentionInputBackward"; }

  variable_list backward(variable_list&& gradients) override {
    const auto [x, y, inverse_rms] = saved<3>();
    const Normed normed = {x, y, inverse_rms};
    std::optional<MemoryLabel> label("qkv");
    const at::Tensor dvkq = join_gradients(std::move(gradients), normed.y, shape);
    rotate(dvkq, shape, true);
    const std::array<const ParameterSlot*, 3> weights = {&block.v, &block.k, &block.q};
    add_weight_gradients(weights, dvkq, normed.y);
    const at::Tensor dy = input_gradient(dvkq, stack_weights(weights));
    label.reset();
    const MemoryLabel norm("norm");
    return {rms_norm_backward(dy, normed, {}, block.ln1), {}, {}, {}, {}};
  }
};

struct AttentionOutputNode final : FusedNode {
  Block block;
  Shape shape;

  std::string name() const override { return "FusedAttentionOutputBackward"; }

  variable_list backward(variable_list&& gradients) override {
    const auto [mixed] = saved<1>();  // (rows, d_model)
    const ParameterSlot* const out[] = {&block.output};
    const MemoryLabel label("output");
    const at::Tensor dbranch = gradients[0].contiguous().to(mixed.scalar_type());
    add_weight_gradients(out, dbranch, mixed);
    const at::Tensor dmixed = input_gradient(dbranch, block.output.weight());
    return {gradients[0], split_heads(dmixed, shape), {}};
  }
};

struct FeedForwardNode final : FusedNode {
  Block block;

  std::string name() const override { return "FusedFeedForwardBackward"; }

  variable_list backward(variable_list&& gradients) override {
    auto [x, y, inverse_rms, saved_up_gate] = saved<4>();  // up_gate (rows, 2 * d_ff)
    at::Tensor up_gate = to_overwrite(std::move(saved_up_gate));
    const Normed normed = {x, y, inverse_rms};
    const at::Tensor dstream = gradients[0].contiguous();
    const ParameterSlot* const down[] = {&block.w2};
    const ParameterSlot* const up[] = {&block.w3, &block.w1};

    std::optional<MemoryLabel> label("w2");
    const at::Tensor dbranch = dstream.to(normed.y.scalar_type());
    const at::Tensor dh = input_gradient(dbranch, block.w2.weight());
    // up_gate is its gradient now.
    const at::Tensor h = labelled("activation", [&] { return swiglu_backward(dh, up_gate); });
    add_weight_gradients(down, dbranch, h);
    label.emplace("w1w3");
    add_weight_gradients(up, up_gate, normed.y);
    const at::Tensor dy = input_gradient(up_gate, stack_weights(up));
    up_gate.reset();
    label.reset();
    const MemoryLabel norm("norm");
    return {rms_norm_backward(dy, normed, dstream, block.ln2), {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor embedding(const ParameterSlot& table, const at::Tensor& ids) {
  const auto node = make_node<EmbeddingNode>(table.parameter);
  at::Tensor stream;
  {
    const KernelGuard guard;
    stream = at::index_select(table.parameter, 0, ids);
  }
  if (node) {
    node->table = table;
    node->save({ids});
    set_history(stream, node);
  }
  return stream;
}

std::array<at::Tensor, 3> attention_input(const at::Tensor& stream, const Block& block,
                                          const Shape& shape) {
  const auto node = make_node<AttentionInputNode>(stream, block.ln1.parameter, block.q.parameter,
                                                  block.k.parameter, block.v.parameter);
  const std::int64_t width = stream.size(1);
  std::array<at::Tensor, 3> qkv;
  Normed normed;
  {
    const KernelGuard guard;
    const c10::ScalarType dtype = block.q.weight().scalar_type();
    normed = labelled("norm", [&] {
      return rms_norm(stream, block.ln1.parameter, shape.norm_eps,
                      empty_rows(node, block.ln1, stream.sizes(), dtype));
    });
    const MemoryLabel label("qkv");
    // The flat buffer holds parameters in reverse order of registration: v, k, q.
    const std::array<const ParameterSlot*, 3> weights = {&block.v, &block.k, &block.q};
    at::Tensor vkq = empty_rows(node, block.ln1, {stream.size(0), 3 * width}, dtype);
    linear_product_out(normed.y, stack_weights(weights), vkq);
    rotate(vkq, shape, false);
    for (const int output : {0, 1, 2}) {
      qkv[output] = split_heads(vkq.narrow(1, (2 - output) * width, width), shape);
    }
  }
  if (node) {
    node->block = block;
    node->shape = shape;
    node->save({normed.x, normed.y, normed.inverse_rms});
    for (at::Tensor& output : qkv) set_history(output, node);
  }
  return qkv;
}

at::Tensor attention_output(const at::Tensor& stream, const at::Tensor& mixed, const Block& block,
                            const Shape& shape) {
  const auto node = make_node<AttentionOutputNode>(stream, mixed, block.output.parameter);
  at::Tensor joined;
  at::Tensor out;
  {
    const KernelGuard guard;
    const MemoryLabel label("output");
    joined = join_heads(mixed).to(block.output.weight().scalar_type());
    out = labelled("residual",
                   [&] { return empty_rows(node, block.output, stream.sizes(), at::kFloat); });
    add_to_stream(stream, linear_product(joined, block.output.weight()), out);
  }
  if (node) {
    node->block = block;
    node->shape = shape;
    node->save({joined});
    set_history(out, node);
  }
  return out;
}

at::Tensor feed_forward(const at::Tensor& stream, const Block& block, const Shape& shape) {
  const auto node = make_node<FeedForwardNode>(stream, block.ln2.parameter, block.w1.parameter,
                                               block.w3.parameter, block.w2.parameter);
  at::Tensor up_gate;
  at::Tensor out;
  Normed normed;
  {
    const KernelGuard guard;
    const c10::ScalarType dtype = block.w1.weight().scalar_type();
    const auto empty = [&](at::IntArrayRef sizes, c10::ScalarType of) {
      return empty_rows(node, block.ln2, sizes, of);
    };
    normed = labelled("norm", [&] {
      return rms_norm(stream, block.ln2.parameter, shape.norm_eps, empty(stream.sizes(), dtype));
    });
    const ParameterSlot* const up[] = {&block.w3, &block.w1};
    labelled("w1w3", [&] {
      const at::Tensor weights = stack_weights(up);
      up_gate = empty({stream.size(0), weights.size(0)}, dtype);
      linear_product_out(normed.y, weights, up_gate);
    });
    const MemoryLabel label("w2");
    out = labelled("residual", [&] { return empty(stream.sizes(), at::kFloat); });
    const at::Tensor h = labelled("activation", [&] { return swiglu(up_gate); });
    add_to_stream(stream, linear_product(h, block.w2.weight()), out);
  }
  if (node) {
    node->block = block;
    node->save({normed.x, normed.y, normed.inverse_rms, up_gate});
    set_history(out, node);
  }
  return out;
}

}  // namespace ddprun::fused
