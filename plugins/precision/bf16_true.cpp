// bf16_true: weights, activations and gradients in bfloat16; the optimizer keeps float32 master
// weights and moments, and rounds the masters into the weights in the same pass.
#include "ddprun/plugin/precision.h"

namespace {

class Bf16True final : public ddprun::Precision {
 public:
  std::optional<ddprun::Refusal> unsupported(const ddprun::RunDescription& run) const override {
    if (run.kernels == ddprun::KernelSet::fused) {
      return ddprun::Refusal{.reason =
                                 "its parameters and gradients are bfloat16, and the fused "
                                 "kernels want them in float32",
                             .expected = "model.kernels reference",
                             .hint = "set `kernels: reference` under `model:`"};
    }
    return ddprun::below_capability(run, 80, "products in bfloat16");
  }

  at::ScalarType compute_dtype() const override { return at::kBFloat16; }
  at::ScalarType reduce_dtype() const override { return at::kBFloat16; }
  at::ScalarType parameter_dtype() const override { return at::kBFloat16; }
};

}  // namespace

DDPRUN_PRECISION(Bf16True, "bf16_true",
                 "weights, activations and gradients in bfloat16, master weights in float32", "1.0")
