// bf16_true: weights, activations and gradients in bfloat16; the optimizer keeps float32 master
// weights and moments, and rounds the masters into the weights in the same pass.
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/precision.h"
#include "ddprun/plugin/run_description.h"

namespace {

class Bf16True final : public ddprun::Precision {
 public:
  std::optional<ddprun::Refusal> unsupported(const ddprun::RunDescription& run) const override {
    if (auto refusal = ddprun::needs_reference_kernels(
            run,
            "its parameters and gradients are bfloat16, and the fused kernels want them in "
            "float32")) {
      return refusal;
    }
    return ddprun::below_capability(run, 80, "products in bfloat16");
  }

  ddprun::PrecisionDtypes dtypes() const override {
    return {.buffers = {.compute = at::kBFloat16, .reduce = at::kBFloat16, .model = at::kBFloat16}};
  }
};

}  // namespace

DDPRUN_PRECISION(Bf16True, "bf16_true",
                 "weights, activations and gradients in bfloat16, master weights in float32", "1.0")
