// fp32: every stage in float32, which is what the defaults of Precision do; a GPU is told not to
// use TF32. Gradients may travel in bfloat16.
#include <optional>

#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/parts/float32_products.h"
#include "ddprun/plugin/precision.h"
#include "ddprun/plugin/run_description.h"

namespace {

using ddprun::Float32Products;

class Fp32 final : public ddprun::Precision {
 public:
  void declare_options(ddprun::Options& options) override {
    options.option("reduce_dtype", &reduce_dtype_, "dtype in which gradients travel between ranks");
  }

  std::optional<ddprun::Refusal> unsupported(const ddprun::RunDescription& run) const override {
    if (run.device == ddprun::DeviceKind::cpu) return {};
    return ddprun::tf32_override("0");
  }

  ddprun::PrecisionDtypes dtypes() const override {
    return {.buffers = {.reduce = ddprun::dtype_of(reduce_dtype_)}};
  }

  void convert(const std::vector<ddprun::NamedTensor>& parameters) override {
    if (!parameters.front().tensor.is_cpu()) products_.emplace(Float32Products::Format::float32);
  }

 private:
  ddprun::ReduceDtype reduce_dtype_ = ddprun::ReduceDtype::float32;
  std::optional<Float32Products> products_;
};

}  // namespace

DDPRUN_PRECISION(Fp32, "fp32", "every stage in float32", "1.2")
