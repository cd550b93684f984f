// An independent transformer in float64 with plain loops: forward, loss and every gradient, with a
// backward derived by hand.
#pragma once

#include <cmath>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ddprun/model/model_config.h"

namespace ddprun::test {

using Values = std::vector<double>;                // row-major
using Parameters = std::map<std::string, Values>;  // by name

/// One sequence at a time; losses and gradients are means over all tokens of all sequences.
class ReferenceTransformer {
 public:
  ReferenceTransformer(const ModelConfig& config, Parameters parameters)
      : config_(config), parameters_(std::move(parameters)) {}

  Parameters& parameters() { return parameters_; }
  const Parameters& gradients() const { return gradients_; }

  /// (T, V) logits of one sequence.
  Values logits(const std::vector<std::int64_t>& ids);

  /// The mean loss over `ids` and `targets` (one row a sequence); fills gradients().
  double loss_and_gradients(const std::vector<std::vector<std::int64_t>>& ids,
                            const std::vector<std::vector<std::int64_t>>& targets);

 private:
  struct BlockCache {  // what the backward of a block needs; q and k are turned by RoPE
    Values x, n1, q, k, v, probabilities, mixed, middle, n2, a, b, gated;
  };

  const Values& weight(const std::string& name) const { return parameters_.at(name); }
  Values linear(const Values& x, const std::string& name) const;
  Values linear_backward(const Values& x, const std::string& name, const Values& dy);
  Values norm(const Values& x, const std::string& name) const;
  Values norm_backward(const Values& x, const std::string& name, const Values& dy);
  void rotate(Values& x, double direction) const;
  void attend(BlockCache& c) const;
  void attend_backward(const BlockCache& c, const Values& dy, Values& dq, Values& dk,
                       Values& dv) const;
  Values block(const Values& x, const std::string& prefix, BlockCache& c) const;
  Values block_backward(const BlockCache& c, const std::string& prefix, const Values& dy);

  std::int64_t width() const { return config_.d_model; }
  // Index of (row t, head h, column 0) of a (T, d_model) matrix.
  std::int64_t at(std::int64_t t, std::int64_t h) const {
    return t * width() + h * config_.head_dim();
  }

  ModelConfig config_;
  Parameters parameters_;
  Parameters gradients_;
  std::vector<BlockCache> caches_;
  Values last_, normed_;  // input and output of the final norm
};

inline void add_to(Values& sum, const Values& x) {
  for (std::size_t i = 0; i < x.size(); ++i) sum[i] += x[i];
}

// y = x W^T; the sizes follow from those of x (T rows) and W.
inline Values ReferenceTransformer::linear(const Values& x, const std::string& name) const {
  const Values& w = weight(name);
  const std::int64_t in = name.ends_with("w2.weight") ? config_.d_ff : width();
  const std::int64_t out = static_cast<std::int64_t>(w.size()) / in;
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / in;
  Values y(rows * out, 0.0);
  for (std::int64_t t = 0; t < rows; ++t)
    for (std::int64_t o = 0; o < out; ++o)
      for (std::int64_t i = 0; i < in; ++i) y[t * out + o] += x[t * in + i] * w[o * in + i];
  return y;
}

// Adds dW = dy^T x; returns dx = dy W.
inline Values ReferenceTransformer::linear_backward(const Values& x, const std::string& name,
                                                    const Values& dy) {
  const Values& w = weight(name);
  Values& dw = gradients_.at(name);
  const std::int64_t in = name.ends_with("w2.weight") ? config_.d_ff : width();
  const std::int64_t out = static_cast<std::int64_t>(w.size()) / in;
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / in;
  Values dx(x.size(), 0.0);
  for (std::int64_t t = 0; t < rows; ++t)
    for (std::int64_t o = 0; o < out; ++o)
      for (std::int64_t i = 0; i < in; ++i) {
        dw[o * in + i] += dy[t * out + o] * x[t * in + i];
        dx[t * in + i] += dy[t * out + o] * w[o * in + i];
      }
  return dx;
}

// y_i = x_i r w_i with r = (mean x^2 + eps)^(-1/2).
inline Values ReferenceTransformer::norm(const Values& x, const std::string& name) const {
  const Values& w = weight(name);
  const std::int64_t d = width();
  Values y(x.size());
  for (std::size_t row = 0; row < x.size(); row += d) {
    double squares = 0;
    for (std::int64_t i = 0; i < d; ++i) squares += x[row + i] * x[row + i];
    const double r = 1.0 / std::sqrt(squares / static_cast<double>(d) + config_.norm_eps);
    for (std::int64_t i = 0; i < d; ++i) y[row + i] = x[row + i] * r * w[i];
  }
  return y;
}

// dr/dx_j = -r^3 x_j / d, hence dx_j = r w_j dy_j - r^3 x_j / d * sum_i dy_i w_i x_i.
inline Values ReferenceTransformer::norm_backward(const Values& x, const std::string& name,
                                                  const Values& dy) {
  const Values& w = weight(name);
  Values& dw = gradients_.at(name);
  const std::int64_t d = width();
  Values dx(x.size());
  for (std::size_t row = 0; row < x.size(); row += d) {
    double squares = 0;
    double product = 0;
    for (std::int64_t i = 0; i < d; ++i) {
      squares += x[row + i] * x[row + i];
      product += dy[row + i] * w[i] * x[row + i];
    }
    const double r = 1.0 / std::sqrt(squares / static_cast<double>(d) + config_.norm_eps);
    for (std::int64_t i = 0; i < d; ++i) {
      dw[i] += dy[row + i] * x[row + i] * r;
      dx[row + i] =
          r * w[i] * dy[row + i] - r * r * r * x[row + i] / static_cast<double>(d) * product;
    }
  }
  return dx;
}

// RoPE: pair k of row t by the angle t theta^(-2k / head_dim). direction -1 undoes it, and is its
// backward.
inline void ReferenceTransformer::rotate(Values& x, double direction) const {
  const std::int64_t size = config_.head_dim();
  for (std::int64_t t = 0; t * width() < static_cast<std::int64_t>(x.size()); ++t)
    for (std::int64_t h = 0; h < config_.heads; ++h)
      for (std::int64_t i = 0; i < size; i += 2) {
        const double angle =
            direction * static_cast<double>(t) *
            std::pow(config_.rope_theta, -static_cast<double>(i) / static_cast<double>(size));
        double& even = x[at(t, h) + i];
        double& odd = x[at(t, h) + i + 1];
        const double turned = even * std::cos(angle) - odd * std::sin(angle);
        odd = even * std::sin(angle) + odd * std::cos(angle);
        even = turned;
      }
}

// probabilities (heads, T, T) and mixed (T, d_model) from q, k, v; keys after the query do not take
// part.
inline void ReferenceTransformer::attend(BlockCache& c) const {
  const std::int64_t size = config_.head_dim();
  const std::int64_t rows = static_cast<std::int64_t>(c.q.size()) / width();
  c.probabilities.assign(config_.heads * rows * rows, 0.0);
  c.mixed.assign(c.q.size(), 0.0);
  for (std::int64_t h = 0; h < config_.heads; ++h)
    for (std::int64_t t = 0; t < rows; ++t) {
      double* const p = &c.probabilities[(h * rows + t) * rows];
      double sum = 0;
      for (std::int64_t s = 0; s <= t; ++s) {
        double score = 0;
        for (std::int64_t i = 0; i < size; ++i) score += c.q[at(t, h) + i] * c.k[at(s, h) + i];
        p[s] = std::exp(score / std::sqrt(static_cast<double>(size)));
        sum += p[s];
      }
      for (std::int64_t s = 0; s <= t; ++s) {
        p[s] /= sum;
        for (std::int64_t i = 0; i < size; ++i) c.mixed[at(t, h) + i] += p[s] * c.v[at(s, h) + i];
      }
    }
}

// Softmax: d score_s = p_s (dp_s - sum_u p_u dp_u).
inline void ReferenceTransformer::attend_backward(const BlockCache& c, const Values& dy, Values& dq,
                                                  Values& dk, Values& dv) const {
  const std::int64_t size = config_.head_dim();
  const std::int64_t rows = static_cast<std::int64_t>(c.q.size()) / width();
  for (std::int64_t h = 0; h < config_.heads; ++h)
    for (std::int64_t t = 0; t < rows; ++t) {
      const double* const p = &c.probabilities[(h * rows + t) * rows];
      Values dp(t + 1, 0.0);
      double mean = 0;
      for (std::int64_t s = 0; s <= t; ++s) {
        for (std::int64_t i = 0; i < size; ++i) {
          dp[s] += dy[at(t, h) + i] * c.v[at(s, h) + i];
          dv[at(s, h) + i] += p[s] * dy[at(t, h) + i];
        }
        mean += p[s] * dp[s];
      }
      for (std::int64_t s = 0; s <= t; ++s) {
        const double dscore = p[s] * (dp[s] - mean) / std::sqrt(static_cast<double>(size));
        for (std::int64_t i = 0; i < size; ++i) {
          dq[at(t, h) + i] += dscore * c.k[at(s, h) + i];
          dk[at(s, h) + i] += dscore * c.q[at(t, h) + i];
        }
      }
    }
}

inline Values ReferenceTransformer::block(const Values& x, const std::string& prefix,
                                          BlockCache& c) const {
  c.x = x;
  c.n1 = norm(x, prefix + "ln1.weight");
  c.q = linear(c.n1, prefix + "attn.q_proj.weight");
  c.k = linear(c.n1, prefix + "attn.k_proj.weight");
  c.v = linear(c.n1, prefix + "attn.v_proj.weight");
  rotate(c.q, 1);
  rotate(c.k, 1);
  attend(c);
  c.middle = linear(c.mixed, prefix + "attn.output_proj.weight");
  add_to(c.middle, x);
  c.n2 = norm(c.middle, prefix + "ln2.weight");
  c.a = linear(c.n2, prefix + "ffn.w1.weight");
  c.b = linear(c.n2, prefix + "ffn.w3.weight");
  c.gated = c.a;
  for (std::size_t i = 0; i < c.a.size(); ++i)
    c.gated[i] = c.a[i] / (1 + std::exp(-c.a[i])) * c.b[i];
  Values y = linear(c.gated, prefix + "ffn.w2.weight");
  add_to(y, c.middle);
  return y;
}

inline Values ReferenceTransformer::block_backward(const BlockCache& c, const std::string& prefix,
                                                   const Values& dy) {
  const Values dgated = linear_backward(c.gated, prefix + "ffn.w2.weight", dy);
  Values da(dgated.size());
  Values db(dgated.size());
  for (std::size_t i = 0; i < dgated.size(); ++i) {
    const double s = 1 / (1 + std::exp(-c.a[i]));
    da[i] = dgated[i] * c.b[i] * s * (1 + c.a[i] * (1 - s));
    db[i] = dgated[i] * c.a[i] * s;
  }
  Values dn2 = linear_backward(c.n2, prefix + "ffn.w1.weight", da);
  add_to(dn2, linear_backward(c.n2, prefix + "ffn.w3.weight", db));
  Values dmiddle = norm_backward(c.middle, prefix + "ln2.weight", dn2);
  add_to(dmiddle, dy);
  const Values dmixed = linear_backward(c.mixed, prefix + "attn.output_proj.weight", dmiddle);
  Values dq(c.q.size(), 0.0);
  Values dk(c.q.size(), 0.0);
  Values dv(c.q.size(), 0.0);
  attend_backward(c, dmixed, dq, dk, dv);
  rotate(dq, -1);
  rotate(dk, -1);
  Values dn1 = linear_backward(c.n1, prefix + "attn.q_proj.weight", dq);
  add_to(dn1, linear_backward(c.n1, prefix + "attn.k_proj.weight", dk));
  add_to(dn1, linear_backward(c.n1, prefix + "attn.v_proj.weight", dv));
  Values dx = norm_backward(c.x, prefix + "ln1.weight", dn1);
  add_to(dx, dmiddle);
  return dx;
}

inline Values ReferenceTransformer::logits(const std::vector<std::int64_t>& ids) {
  const Values& embedding = weight("token_embeddings.weight");
  Values x;
  for (const std::int64_t id : ids) {
    x.insert(x.end(), embedding.begin() + id * width(), embedding.begin() + (id + 1) * width());
  }
  caches_.assign(config_.layers, {});
  for (std::int64_t layer = 0; layer < config_.layers; ++layer) {
    x = block(x, "layers." + std::to_string(layer) + ".", caches_[layer]);
  }
  last_ = x;
  normed_ = norm(last_, "ln_final.weight");
  return linear(normed_, "lm_head.weight");
}

inline double ReferenceTransformer::loss_and_gradients(
    const std::vector<std::vector<std::int64_t>>& ids,
    const std::vector<std::vector<std::int64_t>>& targets) {
  gradients_.clear();
  for (const auto& [name, values] : parameters_) gradients_[name].assign(values.size(), 0.0);
  const std::int64_t vocab = config_.vocab_size;
  const double share = 1.0 / static_cast<double>(ids.size() * ids[0].size());
  double loss = 0;
  for (std::size_t n = 0; n < ids.size(); ++n) {
    Values d = logits(ids[n]);  // becomes d loss / d logits = (softmax - one-hot) / tokens
    for (std::size_t t = 0; t < ids[n].size(); ++t) {
      double* const row = &d[t * vocab];
      double sum = 0;
      for (std::int64_t v = 0; v < vocab; ++v) sum += std::exp(row[v]);
      loss += (std::log(sum) - row[targets[n][t]]) * share;
      for (std::int64_t v = 0; v < vocab; ++v) row[v] = std::exp(row[v]) / sum * share;
      row[targets[n][t]] -= share;
    }
    d = norm_backward(last_, "ln_final.weight", linear_backward(normed_, "lm_head.weight", d));
    for (std::int64_t layer = config_.layers - 1; layer >= 0; --layer) {
      d = block_backward(caches_[layer], "layers." + std::to_string(layer) + ".", d);
    }
    Values& dembedding = gradients_.at("token_embeddings.weight");
    for (std::size_t t = 0; t < ids[n].size(); ++t)
      for (std::int64_t i = 0; i < width(); ++i)
        dembedding[ids[n][t] * width() + i] += d[t * width() + i];
  }
  return loss;
}

}  // namespace ddprun::test
