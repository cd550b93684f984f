// A precision that computes in another dtype than it declares, or scales gradients back by another
// factor than the loss, if its options say so: the proof's tests.
#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>

#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/parts/autocast.h"
#include "ddprun/plugin/precision.h"

namespace ddprun::planted {

/// Never overflows.
class PlantedScaler final : public LossScaler {
 public:
  double up = 0, down = 0;  ///< factor of the loss, divisor of gradients

  at::Tensor scale(const at::Tensor& loss) override { return loss * up; }
  GradientScale gradient_scale(const std::vector<at::Tensor>& gradients) override {
    const auto options = gradients.front().options().dtype(at::kFloat);
    return {.factor = at::full({}, 1 / down, options), .overflow = at::zeros({}, options)};
  }
};

class PlantedPrecision final : public Precision {
 public:
  void declare_options(Options& options) override {
    options.option("scales", &scaler_.up, "factor of the loss; 0: none");
    options.option("halves_gradients", &halves_gradients_, "of linear layers");
    options.option("scales_back", &scaler_.down, "divisor of the gradients then");
    options.option("declares", &declares_, "the dtype of the products, as told");
    options.option("computes", &computes_, "the dtype of the products, in fact");
  }
  PrecisionDtypes dtypes() const override { return {.buffers = {.compute = dtype_of(declares_)}}; }
  std::unique_ptr<Guard> forward_guard() override {
    if (computes_ == ReduceDtype::float32) return nullptr;
    return std::make_unique<AutocastGuard>(c10::kCPU, dtype_of(computes_));
  }

  LossScaler* loss_scaler() override { return scaler_.up == 0 ? nullptr : &scaler_; }

  Linear linear() override {
    if (!halves_gradients_) return {};
    return [](const at::Tensor& x, const at::Tensor& weight) {
      const at::Tensor y = at::linear(x, weight);
      return y.detach() + 0.5 * (y - y.detach());
    };
  }

 private:
  PlantedScaler scaler_;
  bool halves_gradients_ = false;
  ReduceDtype declares_ = ReduceDtype::float32;
  ReduceDtype computes_ = ReduceDtype::float32;
};

}  // namespace ddprun::planted

DDPRUN_PRECISION(ddprun::planted::PlantedPrecision, TEST_NAME, TEST_SUMMARY, "1.0")
