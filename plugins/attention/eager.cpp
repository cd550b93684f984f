// eager: attention as CS336 section 3.5.4 writes it; the (time x time) scores are materialized.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>

#include <cmath>
#include <limits>

#include "ddprun/plugin/attention.h"
#include "ddprun/plugin/export.h"

namespace {

class Eager final : public ddprun::Attention {
 public:
  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const ddprun::AttentionOptions& options) override {
    const double head_dim = static_cast<double>(q.size(-1));
    const double scale = options.scale != 0.0 ? options.scale : 1.0 / std::sqrt(head_dim);
    at::Tensor scores = at::matmul(q, k.transpose(-2, -1)) * scale;  // (batch, heads, time, time)
    const double hidden = -std::numeric_limits<double>::infinity();
    if (options.causal) scores = scores.masked_fill(future(q, k), hidden);
    if (options.first_keys.defined()) {
      scores = scores.masked_fill(before_document(options.first_keys, k), hidden);
    }
    return at::matmul(at::softmax(scores, -1), v).to(q.scalar_type());
  }

  bool takes_meta() const override { return true; }
  bool takes_documents() const override { return true; }

  std::optional<ddprun::AttentionMemory> memory(
      const ddprun::AttentionSizes& sizes) const override {
    const double pairs = static_cast<double>(sizes.queries) * static_cast<double>(sizes.keys);
    const double scores = pairs * static_cast<double>(sizes.batch * sizes.heads) *
                          static_cast<double>(sizes.element_bytes);
    const double documents = sizes.documents ? pairs * static_cast<double>(sizes.batch) : 0;
    const double mask = (sizes.causal ? pairs : 0) + documents;  // a byte each
    // Scores before and after masking, or after masking and after the softmax. Backward keeps the
    // latter, and computes their gradient and that of what the softmax was given.
    return ddprun::AttentionMemory{
        .forward = 2 * scores + mask, .saved = scores + mask, .backward = 2 * scores};
  }

 private:
  // (batch, 1, queries, keys): true where a key lies before the query's document.
  static at::Tensor before_document(const at::Tensor& first_keys, const at::Tensor& k) {
    const at::Tensor keys = at::arange(k.size(-2), first_keys.options());
    return (keys < first_keys.unsqueeze(-1)).unsqueeze(1);
  }

  // True where a key lies after the query. It is kept for the layers, which all need the same size,
  // and stays where it is for less, as in text that a model writes: a captured step reads it there.
  at::Tensor future(const at::Tensor& q, const at::Tensor& k) {
    const std::int64_t queries = q.size(-2), keys = k.size(-2);
    if (!future_.defined() || future_.size(0) < queries || future_.size(1) < keys) {
      future_ = at::ones({queries, keys}, q.options().dtype(at::kBool)).triu(1);
    }
    return future_.narrow(0, 0, queries).narrow(1, 0, keys);
  }

  at::Tensor future_;
};

}  // namespace

DDPRUN_ATTENTION(Eager, "eager", "softmax(q k^T) v with the scores in memory", "1.0")
