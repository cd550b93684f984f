// A precision that skips every second step, the first one too, as one for float16 skips those whose
// gradients overflow; named by its build.
#include "ddprun/plugin/precision.h"

namespace {

class TestSkippingPrecision final : public ddprun::Precision {
  bool unscale_gradients(const at::Tensor&, ddprun::ProcessGroup&) override {
    skip_ = !skip_;
    return !skip_;
  }
  bool skip_ = false;
};

}  // namespace

DDPRUN_PRECISION(TestSkippingPrecision, TEST_NAME, TEST_SUMMARY, "1.2")
