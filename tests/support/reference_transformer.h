// An independent transformer in float64, of plain products and sums. Autograd makes its gradients.
#pragma once

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <utility>

#include "ddprun/model/model_config.h"

namespace ddprun::test {

class ReferenceTransformer {
 public:
  /// `parameters`: by name, float64, which require gradients.
  ReferenceTransformer(const ModelConfig& config, std::map<std::string, at::Tensor> parameters)
      : config_(config), parameters_(std::move(parameters)) {}

  const at::Tensor& parameter(const std::string& name) const { return parameters_.at(name); }

  /// (B, T, V) of ids (B, T).
  at::Tensor logits(const at::Tensor& ids) const {
    at::Tensor x = parameter("token_embeddings.weight").index_select(0, ids.flatten());
    x = x.view({ids.size(0), ids.size(1), config_.d_model});
    for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
      const std::string prefix = "layers." + std::to_string(layer) + ".";
      x = x + attention(norm(x, prefix + "ln1.weight"), prefix + "attn.");
      x = x + feed_forward(norm(x, prefix + "ln2.weight"), prefix + "ffn.");
    }
    return linear(norm(x, "ln_final.weight"), "lm_head.weight");
  }

  /// The mean over all tokens. Its backward() makes the gradients of the parameters.
  at::Tensor loss(const at::Tensor& ids, const at::Tensor& targets) const {
    return -logits(ids).log_softmax(-1).gather(-1, targets.unsqueeze(-1)).mean();
  }

 private:
  at::Tensor linear(const at::Tensor& x, const std::string& name) const {
    return x.matmul(parameter(name).t());
  }

  at::Tensor norm(const at::Tensor& x, const std::string& name) const {
    return x / (x.square().mean(-1, /*keepdim=*/true) + config_.norm_eps).sqrt() * parameter(name);
  }

  /// RoPE: pair k of row t of x (B, heads, T, head_dim) turns by the angle t theta^(-2k /
  /// head_dim).
  at::Tensor rotate(const at::Tensor& x) const {
    const at::Tensor twice_k = at::arange(0, x.size(3), 2, at::kDouble);
    const at::Tensor speeds = at::pow(config_.rope_theta, -twice_k / x.size(3));
    const at::Tensor angles = at::outer(at::arange(x.size(2), at::kDouble), speeds);
    const at::Tensor even = x.slice(3, 0, {}, 2), odd = x.slice(3, 1, {}, 2);
    const at::Tensor cos = angles.cos(), sin = angles.sin();
    return at::stack({even * cos - odd * sin, even * sin + odd * cos}, -1).flatten(3);
  }

  /// Keys after the query do not take part.
  at::Tensor attention(const at::Tensor& x, const std::string& prefix) const {
    const auto heads = [&](const char* name) {
      return linear(x, prefix + name).unflatten(2, {config_.heads, -1}).transpose(1, 2);
    };
    const at::Tensor q = rotate(heads("q_proj.weight")), k = rotate(heads("k_proj.weight"));
    const at::Tensor scores = q.matmul(k.transpose(2, 3)) / std::sqrt(config_.head_dim());
    const at::Tensor later = at::ones_like(scores, at::kBool).triu(1);
    const at::Tensor shares =
        scores.masked_fill(later, -std::numeric_limits<double>::infinity()).softmax(-1);
    const at::Tensor mixed = shares.matmul(heads("v_proj.weight"));
    return linear(mixed.transpose(1, 2).flatten(2), prefix + "output_proj.weight");
  }

  at::Tensor feed_forward(const at::Tensor& x, const std::string& prefix) const {
    const at::Tensor a = linear(x, prefix + "w1.weight");
    return linear(a * a.sigmoid() * linear(x, prefix + "w3.weight"), prefix + "w2.weight");
  }

  ModelConfig config_;
  std::map<std::string, at::Tensor> parameters_;
};

}  // namespace ddprun::test
