// A precision that multiplies the loss by a constant.
#pragma once

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "ddprun/plugin/precision.h"

namespace ddprun::test {

/// `scale` 1: there is nothing to scale.
class ScalingPrecision : public Precision, public LossScaler {
 public:
  explicit ScalingPrecision(double scale, const BufferDtypes& buffers = {})
      : scale_(scale), buffers_(buffers) {}
  PrecisionDtypes dtypes() const override { return {.buffers = buffers_}; }
  LossScaler* loss_scaler() override { return scale_ == 1 ? nullptr : this; }
  at::Tensor scale(const at::Tensor& loss) override { return loss * scale_; }
  GradientScale gradient_scale(const std::vector<at::Tensor>&) override {
    return {.factor = at::full({}, 1 / scale_), .overflow = at::zeros({})};
  }

 private:
  double scale_;
  BufferDtypes buffers_;
};

}  // namespace ddprun::test
