// An independent transformer in float64, of plain products and sums. Autograd makes its gradients.
#pragma once

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <string>
#include <vector>

#include "ddprun/model/transformer.h"

namespace ddprun::test {

class ReferenceTransformer {
 public:
  /// Its parameters are copies of the model's, and require gradients.
  ReferenceTransformer(const ModelConfig& config, const Transformer& model) : config_(config) {
    for (const NamedTensor& each : model.parameters()) {
      parameters_[each.name] = each.tensor.detach().to(at::kDouble).requires_grad_();
    }
  }

  const at::Tensor& parameter(const std::string& name) const { return parameters_.at(name); }

  /// (B, T, V) of ids (B, T).
  at::Tensor logits(const at::Tensor& ids) const {
    at::Tensor x = parameter("token_embeddings.weight").index_select(0, ids.flatten());
    x = x.view({ids.size(0), ids.size(1), config_.d_model});
    if (config_.positions == Positions::learned) {
      x = x + parameter("position_embeddings.weight").slice(0, 0, ids.size(1));
    }
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
      const std::string prefix = "layers." + std::to_string(layer) + ".";
      x = x + attention(norm(x, prefix + "ln1"), prefix + "attn.");
      x = x + feed_forward(norm(x, prefix + "ln2"), prefix + "ffn.");
    }
    return linear(norm(x, "ln_final"), "lm_head");
  }

  /// The mean over all tokens. Its backward() makes the gradients of the parameters.
  at::Tensor loss(const at::Tensor& ids, const at::Tensor& targets) const {
    return -logits(ids).log_softmax(-1).gather(-1, targets.unsqueeze(-1)).mean();
  }

 private:
  at::Tensor with_bias(const at::Tensor& y, const std::string& name) const {
    const auto bias = parameters_.find(name + ".bias");
    return bias == parameters_.end() ? y : y + bias->second;
  }

  at::Tensor linear(const at::Tensor& x, const std::string& name) const {
    return with_bias(x.matmul(parameter(name + ".weight").t()), name);
  }

  at::Tensor norm(const at::Tensor& x, const std::string& name) const {
    const bool centred = config_.norm == Norm::layernorm;
    const at::Tensor own = centred ? x - x.mean(-1, /*keepdim=*/true) : x;
    const at::Tensor square = own.square().mean(-1, /*keepdim=*/true);
    return with_bias(own / (square + config_.norm_eps).sqrt() * parameter(name + ".weight"), name);
  }

  /// RoPE: pair k of row t of x (B, heads, T, head_dim) turns by the angle t theta^(-2k /
  /// head_dim).
  at::Tensor rotate(const at::Tensor& x) const {
    if (config_.positions == Positions::learned) return x;
    const at::Tensor twice_k = at::arange(0, x.size(3), 2, at::kDouble);
    const at::Tensor speeds = at::pow(config_.rope_theta, -twice_k / x.size(3));
    const at::Tensor angles = at::outer(at::arange(x.size(2), at::kDouble), speeds);
    const at::Tensor even = x.slice(3, 0, {}, 2), odd = x.slice(3, 1, {}, 2);
    const at::Tensor cos = angles.cos(), sin = angles.sin();
    return at::stack({even * cos - odd * sin, even * sin + odd * cos}, -1).flatten(3);
  }

  /// Keys after the query do not take part.
  at::Tensor attention(const at::Tensor& x, const std::string& prefix) const {
    std::vector<at::Tensor> qkv;
    if (config_.joint_qkv) {
      qkv = linear(x, prefix + "qkv_proj").chunk(3, -1);
    } else {
      for (const char* name : {"q_proj", "k_proj", "v_proj"}) {
        qkv.push_back(linear(x, prefix + name));
      }
    }
    for (at::Tensor& each : qkv) each = each.unflatten(2, {config_.heads, -1}).transpose(1, 2);
    const at::Tensor q = rotate(qkv[0]), k = rotate(qkv[1]);
    const at::Tensor scores = q.matmul(k.transpose(2, 3)) / std::sqrt(config_.head_dim());
    const at::Tensor later = at::ones_like(scores, at::kBool).triu(1);
    const at::Tensor shares =
        scores.masked_fill(later, -std::numeric_limits<double>::infinity()).softmax(-1);
    return linear(shares.matmul(qkv[2]).transpose(1, 2).flatten(2), prefix + "output_proj");
  }

  at::Tensor feed_forward(const at::Tensor& x, const std::string& prefix) const {
    const at::Tensor a = linear(x, prefix + "w1");
    if (config_.activation == Activation::gelu) {
      return linear(a * 0.5 * (1 + (a / std::numbers::sqrt2).erf()), prefix + "w2");
    }
    return linear(a * a.sigmoid() * linear(x, prefix + "w3"), prefix + "w2");
  }

  ModelConfig config_;
  std::map<std::string, at::Tensor> parameters_;
};

}  // namespace ddprun::test
