// An attention that allocates what another one says that it takes, and computes nothing.
#pragma once

#include <memory>
#include <utility>

#include "ddprun/plugin/attention.h"

namespace ddprun {

/// For tensors of device meta, which kernels of a plugin's own cannot take. Its output lies as
/// (batch, time, heads, head_dim), as that of fused kernels of attention does.
class DryAttention final : public Attention {
 public:
  /// Takes the memory of `of` (Attention::memory()).
  explicit DryAttention(std::shared_ptr<Attention> of) : of_(std::move(of)) {}

  /// Throws Error if the memory is not known.
  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const AttentionOptions& options) override;

 private:
  std::shared_ptr<Attention> of_;
};

}  // namespace ddprun
