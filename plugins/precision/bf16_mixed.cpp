// bf16_mixed: matrix products in bfloat16, by the fused kernels or by PyTorch's autocast;
// parameters, gradients, norms and loss stay float32.
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/parts/autocast.h"
#include "ddprun/plugin/precision.h"
#include "ddprun/plugin/run_description.h"

namespace {

class Bf16Mixed final : public ddprun::Precision {
 public:
  void declare_options(ddprun::Options& options) override {
    options.option("reduce_dtype", &reduce_dtype_, "dtype in which gradients travel between ranks");
  }

  std::optional<ddprun::Refusal> unsupported(const ddprun::RunDescription& run) const override {
    return ddprun::below_capability(run, 80, "products in bfloat16");
  }

  void convert(const std::vector<ddprun::NamedTensor>& parameters) override {
    device_ = parameters.front().tensor.device().type();
  }

  ddprun::PrecisionDtypes dtypes() const override {
    return {.buffers = {.compute = at::kBFloat16, .reduce = ddprun::dtype_of(reduce_dtype_)}};
  }

  std::unique_ptr<Guard> forward_guard() override {
    return std::make_unique<ddprun::AutocastGuard>(device_, at::kBFloat16);
  }

 private:
  ddprun::ReduceDtype reduce_dtype_ = ddprun::ReduceDtype::float32;
  c10::DeviceType device_ = c10::kCPU;
};

}  // namespace

DDPRUN_PRECISION(Bf16Mixed, "bf16_mixed", "matrix products in bfloat16, the rest in float32", "1.1")
