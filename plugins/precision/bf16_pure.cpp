// bf16_pure: weights, activations, gradients and moments in bfloat16, and no float32 copy of
// anything. The optimizer computes in float32 and rounds what it stores.
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/precision.h"
#include "ddprun/plugin/run_description.h"

namespace {

/// What the optimizer keeps its moments in.
enum class MomentsDtype { bfloat16, float32 };
constexpr auto choice_names(MomentsDtype) { return std::array{"bfloat16", "float32"}; }

class Bf16Pure final : public ddprun::Precision {
 public:
  void declare_options(ddprun::Options& options) override {
    options.option("moments_dtype", &moments_dtype_, "dtype in which the optimizer keeps moments");
  }

  std::optional<ddprun::Refusal> unsupported(const ddprun::RunDescription& run) const override {
    if (auto refusal = ddprun::needs_reference_kernels(
            run,
            "its parameters and gradients are bfloat16, and the fused kernels want them in "
            "float32")) {
      return refusal;
    }
    const ddprun::OptimizerConfig& optimizer = run.optimizer;
    const bool moments =
        optimizer.name == ddprun::OptimizerKind::adamw || optimizer.momentum != 0.0;
    if (!moments && moments_dtype_ != MomentsDtype::bfloat16) {
      return ddprun::Refusal{.reason = "moments_dtype has no effect: SGD without momentum has none",
                             .expected = "an optimizer with moments, or no moments_dtype",
                             .hint = "remove it"};
    }
    return ddprun::below_capability(run, 80, "products in bfloat16");
  }

  ddprun::PrecisionDtypes dtypes() const override {
    const bool narrow = moments_dtype_ == MomentsDtype::bfloat16;
    return {.buffers = {.compute = at::kBFloat16,
                        .reduce = at::kBFloat16,
                        .model = at::kBFloat16,
                        .parameters = at::kBFloat16,
                        .moments = narrow ? at::kBFloat16 : at::kFloat}};
  }

 private:
  MomentsDtype moments_dtype_ = MomentsDtype::bfloat16;
};

}  // namespace

DDPRUN_PRECISION(Bf16Pure, "bf16_pure",
                 "weights, activations, gradients and moments in bfloat16, without masters", "1.0")
