// dense: softmax(q k^T * scale) v as it is written, with the scores of all pairs in memory.
#include <ATen/TensorOperators.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>

#include <cmath>
#include <limits>

#include "ddprun/plugin/attention.h"
#include "ddprun/plugin/export.h"

namespace {

class Dense final : public ddprun::Attention {
 public:
  // q, k, v: (batch, heads, time, head_dim). What autograd cannot derive needs a backward of its
  // own: ddprun/plugin/parts/kernel_node.h. Options of the YAML go into declare_options().
  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const ddprun::AttentionOptions& options) override {
    const double head_dim = static_cast<double>(q.size(-1));
    const double scale = options.scale != 0.0 ? options.scale : 1.0 / std::sqrt(head_dim);
    at::Tensor scores = at::matmul(q, k.transpose(-2, -1)) * scale;  // (batch, heads, time, time)
    if (options.causal) scores = scores.masked_fill(later_keys(q, k), kHidden);
    return at::matmul(at::softmax(scores, -1), v).to(q.scalar_type());
  }

  // PyTorch's operators alone run on tensors without values. Kernels of your own do not: remove it,
  // and say in memory() what a call allocates.
  bool takes_meta() const override { return true; }

  // takes_documents() is where to say that forward() heeds options.first_keys.

 private:
  static constexpr double kHidden = -std::numeric_limits<double>::infinity();

  // (time, time): true where a key lies after the query.
  static at::Tensor later_keys(const at::Tensor& q, const at::Tensor& k) {
    return at::ones({q.size(-2), k.size(-2)}, q.options().dtype(at::kBool)).triu(1);
  }
};

}  // namespace

DDPRUN_ATTENTION(Dense, "dense", "softmax(q k^T) v as it is written", "1.0")
