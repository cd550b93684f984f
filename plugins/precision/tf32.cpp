// tf32: matrix products in TF32 on a GPU's tensor cores: float32's exponent, 10 bits of its
// mantissa, sums in float32. What they read and write, and all else, is float32.
#include <optional>

#include "ddprun/plugin/export.h"
#include "ddprun/plugin/parts/float32_products.h"
#include "ddprun/plugin/precision.h"
#include "ddprun/plugin/run_description.h"

namespace {

using ddprun::Float32Products;

class Tf32 final : public ddprun::Precision {
 public:
  std::optional<ddprun::Refusal> unsupported(const ddprun::RunDescription& run) const override {
    if (run.device == ddprun::DeviceKind::cpu) {
      return ddprun::Refusal{.reason = "TF32 is a format of GPUs",
                             .expected = "world.device cuda",
                             .hint = "on the CPU there is fp32"};
    }
    if (auto refusal = ddprun::below_capability(run, 80, "TF32 products")) return refusal;
    return ddprun::tf32_override("1");
  }

  ddprun::PrecisionDtypes dtypes() const override { return {.products = "tf32"}; }

  // Done only when there is a run: objects are also made just to be described or asked.
  void convert(const std::vector<ddprun::NamedTensor>&) override {
    products_.emplace(Float32Products::Format::tf32);
  }

 private:
  std::optional<Float32Products> products_;
};

}  // namespace

DDPRUN_PRECISION(Tf32, "tf32", "a GPU's matrix products in TF32, the rest in float32", "1.0")
