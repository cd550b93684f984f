// A precision that scales the loss, as one for float16 would, named by its build.
#include <ATen/TensorOperators.h>

#include "ddprun/plugin/precision.h"

namespace {

class TestScalingPrecision final : public ddprun::Precision {
  at::Tensor scale_loss(const at::Tensor& loss) override { return loss * 8; }
  bool unscale_gradients(const at::Tensor& gradients, ddprun::ProcessGroup&) override {
    gradients.mul_(1.0 / 8);
    return true;
  }
};

}  // namespace

DDPRUN_PRECISION(TestScalingPrecision, TEST_NAME, TEST_SUMMARY, "1.2")
