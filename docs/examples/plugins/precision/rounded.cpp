// rounded: linear layers multiply what 16 bits can hold and add in float32; all else is float32.
#include <ATen/ops/linear.h>

#include <array>

#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/precision.h"
#include "ddprun/plugin/run_description.h"

namespace {

/// What the factors of products are cut to.
enum class FactorFormat { bfloat16, float16 };
constexpr auto choice_names(FactorFormat) { return std::array{"bfloat16", "float16"}; }

class Rounded final : public ddprun::Precision {
 public:
  // Keys of the YAML beside `name`. Options of your own stand here.
  void declare_options(ddprun::Options& options) override {
    options.option("format", &format_, "what the factors of products are cut to");
  }

  // Runs that it cannot take part in. The fused kernels multiply by themselves.
  std::optional<ddprun::Refusal> unsupported(const ddprun::RunDescription& run) const override {
    return ddprun::needs_reference_kernels(run, "the fused kernels do not call its products");
  }

  // The dtype of each stage: `buffers` of weights, gradients and moments, `products` of factors.
  // Each run holds `products` against what linear() computes.
  ddprun::PrecisionDtypes dtypes() const override { return {.products = ddprun::name_of(format_)}; }

  // How linear layers multiply. Gradients pass the same conversions, so they are cut, too.
  // forward_guard() is where to switch autocast on, loss_scaler() where to scale the loss.
  ddprun::Precision::Linear linear() override {
    return [dtype = dtype()](const at::Tensor& x, const at::Tensor& weight) {
      return at::linear(x.to(dtype).to(at::kFloat), weight.to(dtype).to(at::kFloat));
    };
  }

 private:
  at::ScalarType dtype() const {
    return format_ == FactorFormat::float16 ? at::kHalf : at::kBFloat16;
  }

  FactorFormat format_ = FactorFormat::bfloat16;
};

}  // namespace

DDPRUN_PRECISION(Rounded, "rounded", "linear layers' factors in 16 bits, the rest in float32",
                 "1.0")
