// The attention interface: softmax(q k^T * scale) v, causal or not, within documents or across
// them, differentiable.
#pragma once

#include <ATen/core/Tensor.h>

#include <atomic>
#include <memory>
#include <optional>

#include "ddprun/plugin/attention_sizes.h"
#include "ddprun/plugin/plugin.h"

namespace ddprun {

struct AttentionOptions {
  bool causal = true;
  double scale = 0.0;  ///< factor of q k^T; 0 means 1/sqrt(head_dim)
  /// (batch, time) int32, contiguous: the first key that each query sees, where a sequence holds
  /// several documents. It is no later than the query, and does not fall from one query to the
  /// next. Undefined: key 0. Only an attention with takes_documents() is given it.
  at::Tensor first_keys = {};
};

/// An implementation of attention. There is one object per rank. forward() is called on the
/// training thread, once per layer. With model.recompute it is called without autograd there, and
/// again in backward, on the thread of that.
class Attention : public Plugin {
 public:
  ~Attention() override;

  /// q, k, v: (batch, heads, time, head_dim), any strides. Returns (batch, heads, time, head_dim)
  /// in q's dtype, differentiable with respect to q, k and v.
  virtual at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                             const AttentionOptions& options) = 0;

  /// What a call allocates. Called in the launching process, where more than the machine has is
  /// refused, and by the experiment that measures attention. Nothing: it is not known.
  virtual std::optional<AttentionMemory> memory(const AttentionSizes& /*sizes*/) const {
    return {};
  }

  /// Whether forward() and its backward also take tensors of PyTorch's device meta, which have
  /// sizes and no values, as all of PyTorch's common operators do. Then a step's memory is known
  /// before it runs without memory().
  virtual bool takes_meta() const { return false; }

  /// Whether forward() heeds AttentionOptions::first_keys. If not, data.document_end is refused.
  virtual bool takes_documents() const { return false; }

  /// The core's: gradients of inputs that backward has begun to compute and that are not there yet.
  /// On a GPU autograd has threads of its own.
  const std::shared_ptr<std::atomic<int>> missing = std::make_shared<std::atomic<int>>(0);
};

}  // namespace ddprun
