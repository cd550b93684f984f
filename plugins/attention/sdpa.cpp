// sdpa: PyTorch's scaled_dot_product_attention, whose fused kernel never holds the whole score
// matrix.
#include <ATen/ops/scaled_dot_product_attention.h>

#include <optional>

#include "ddprun/plugin/attention.h"

namespace {

class Sdpa final : public ddprun::Attention {
 public:
  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const ddprun::AttentionOptions& options) override {
    const auto scale = options.scale != 0.0 ? std::optional(options.scale) : std::nullopt;
    return at::scaled_dot_product_attention(q, k, v, /*attn_mask=*/{}, /*dropout_p=*/0.0,
                                            options.causal, scale);
  }
};

}  // namespace

DDPRUN_ATTENTION(Sdpa, "sdpa", "PyTorch's fused scaled_dot_product_attention", "1.0")
