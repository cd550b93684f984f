// fp16_mixed: autocast to float16 with dynamic loss scaling (Micikevicius et al. 2018,
// section 3.2): gradients too small for float16 are scaled up, and a step whose gradients overflow
// is skipped.
#include <ATen/TensorOperators.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>

#include <limits>

#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/parts/autocast.h"
#include "ddprun/plugin/precision.h"
#include "ddprun/plugin/run_description.h"
#include "ddprun/plugin/state.h"

namespace {

/// Scales by the rules of torch.amp.GradScaler. The scale and what decides over it are tensors that
/// stay on the device, so nothing waits for them. They are the same tensors in each step, so a
/// captured step finds them.
class Fp16Mixed final : public ddprun::Precision, public ddprun::LossScaler {
 public:
  void declare_options(ddprun::Options& options) override {
    options.option("init_scale", &init_scale_, "factor of the loss in the first step",
                   {.min = std::numeric_limits<float>::min(), .max = 1e38});
    options.option("growth_factor", &growth_factor_,
                   "times which the scale grows after growth_interval steps without overflow",
                   {.min = 1.0, .max = 1e6});
    options.option("backoff_factor", &backoff_factor_, "times which it shrinks after an overflow",
                   {.min = 1e-6, .max = 1.0});
    options.option("growth_interval", &growth_interval_, "steps without overflow until it grows",
                   {.min = 1, .max = std::numeric_limits<int>::max()});
  }

  std::optional<ddprun::Refusal> unsupported(const ddprun::RunDescription& run) const override {
    return ddprun::needs_reference_kernels(run, "the fused kernels do not compute in float16");
  }

  void convert(const std::vector<ddprun::NamedTensor>& parameters) override {
    const at::Tensor& first = parameters.front().tensor;
    device_ = first.device().type();
    const auto options = first.options().requires_grad(false);
    scale_ = at::full({}, init_scale_, options.dtype(at::kFloat));
    overflow_ = at::zeros({}, options.dtype(at::kFloat));
    growth_steps_ = at::zeros({}, options.dtype(at::kInt));
  }

  ddprun::PrecisionDtypes dtypes() const override { return {.buffers = {.compute = at::kHalf}}; }

  std::unique_ptr<Guard> forward_guard() override {
    return std::make_unique<ddprun::AutocastGuard>(device_, at::kHalf);
  }

  ddprun::LossScaler* loss_scaler() override { return this; }

  at::Tensor scale(const at::Tensor& loss) override {
    if (step_done_) {  // only after it had all ranks agreed on the overflow
      at::_amp_update_scale_(scale_, growth_steps_, overflow_, growth_factor_, backoff_factor_,
                             growth_interval_);
      step_done_ = false;
    }
    return loss * scale_;
  }

  ddprun::GradientScale gradient_scale(const std::vector<at::Tensor>& gradients) override {
    overflow_.zero_();
    for (const at::Tensor& part : gradients) {
      const at::Tensor largest =
          at::linalg_vector_norm(part, std::numeric_limits<double>::infinity());
      overflow_.logical_or_(largest.isfinite().logical_not());
    }
    step_done_ = true;
    return {.factor = scale_.reciprocal(), .overflow = overflow_};
  }

  void declare_state(ddprun::State& state) override {
    state.tensor("scale", scale_);
    state.tensor("growth_steps", growth_steps_);
    state.tensor("overflow", overflow_);
    std::int64_t step_done = step_done_ ? 1 : 0;
    state.number("step_done", step_done);
    step_done_ = step_done != 0;
  }

 private:
  double init_scale_ = 65536.0;
  double growth_factor_ = 2.0;
  double backoff_factor_ = 0.5;
  std::int64_t growth_interval_ = 2000;
  at::Tensor scale_;         // float32 ()
  at::Tensor growth_steps_;  // int32 (): without overflow, since the scale last changed
  at::Tensor overflow_;      // float32 (): of the last step
  bool step_done_ = false;   // and the scale has not heeded it yet
  c10::DeviceType device_ = c10::kCPU;
};

}  // namespace

DDPRUN_PRECISION(Fp16Mixed, "fp16_mixed", "matrix products in float16, with dynamic loss scaling",
                 "1.0")
