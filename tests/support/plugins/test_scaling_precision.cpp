// A precision that scales the loss by a constant, as one for float16 would.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include "ddprun/plugin/export.h"
#include "ddprun/plugin/precision.h"

namespace {

class TestScalingPrecision final : public ddprun::Precision, public ddprun::LossScaler {
  ddprun::LossScaler* loss_scaler() override { return this; }
  at::Tensor scale(const at::Tensor& loss) override { return loss * 8; }
  ddprun::GradientScale gradient_scale(const std::vector<at::Tensor>&) override {
    return {.factor = at::full({}, 1.0 / 8), .overflow = at::zeros({})};
  }
};

}  // namespace

DDPRUN_PLUGIN_AS(scaling_a, TestScalingPrecision, precision, "scaling", "scaling", "1.2")
