// A precision that skips every second step, the first one too, as one for float16 skips those whose
// gradients overflow on a rank.
#include <ATen/ops/full.h>

#include "ddprun/plugin/export.h"
#include "ddprun/plugin/precision.h"

namespace {

class TestSkippingPrecision final : public ddprun::Precision, public ddprun::LossScaler {
  ddprun::LossScaler* loss_scaler() override { return this; }
  at::Tensor scale(const at::Tensor& loss) override { return loss; }
  ddprun::GradientScale gradient_scale(const std::vector<at::Tensor>&) override {
    skip_ = !skip_;
    return {.overflow = at::full({}, skip_ ? 1.0 : 0.0)};
  }
  bool skip_ = false;
};

}  // namespace

DDPRUN_PLUGIN_AS(skipping_a, TestSkippingPrecision, precision, "skipping", "skipping", "1.2")
