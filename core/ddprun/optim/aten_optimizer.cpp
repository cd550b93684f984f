// AdamW and SGD over ranges of the flat buffers, operator by operator, for devices that have no
// kernels of our own.
#include "ddprun/optim/optimizer.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <optional>

namespace ddprun {

namespace {

/// Elements that are widened to float32 at a time, where the optimizer's are not.
constexpr std::int64_t kWidened = 16 << 20;

/// A tensor's values in float32: the tensor itself, or what is to be rounded back into it.
class Wide {
 public:
  explicit Wide(const at::Tensor& kept) : kept_(kept), values_(kept.to(at::kFloat)) {}
  const at::Tensor& values() const { return values_; }
  void put_back() const {
    if (!values_.is_same(kept_)) kept_.copy_(values_);
  }

 private:
  at::Tensor kept_, values_;
};

/// Every value that differs from step to step is a tensor on the device: nothing waits for it, and
/// a captured step reads what begin_step() wrote.
class AtenOptimizer : public Optimizer {
 public:
  AtenOptimizer(const OptimizerConfig& config, FlatBuffers& buffers)
      : Optimizer(config, buffers),
        lr_(at::zeros({}, buffers.parameter(0).options().dtype(at::kFloat).requires_grad(false))),
        steps_(at::zeros_like(lr_)) {}

  std::int64_t updates() const override { return steps_.item<std::int64_t>(); }
  void set_updates(std::int64_t updates) override { steps_.fill_(updates); }
  /// An operator may multiply and add in one rounding where a vector is full, and in two elsewhere.
  bool rounds_the_same_everywhere() const override { return false; }

 protected:
  /// float32 ().
  at::Tensor rate(const GroupSettings& settings) const {
    return settings.lr_scale == 1.0 ? lr_ : lr_ * settings.lr_scale;
  }
  at::Tensor gradients(Range range) const { return buffers_.mean(range).to(at::kFloat); }

  at::Tensor lr_;        // float32 ()
  at::Tensor steps_;     // float32 (): that were not skipped, this one included
  GradientScale scale_;  // of this step; overflow is 0 or 1

 private:
  void start(double lr) override {
    lr_.fill_(lr);
    scale_ = {};
    counted_ = false;
  }

  void scale(const GradientScale& scale) override {
    scale_ = scale;
    if (scale.overflow.defined()) scale_.overflow = scale.overflow.gt(0).to(at::kFloat);
  }

  void update_range(Range range, const GroupSettings& settings) final {
    if (!counted_) {  // not in start(), which a captured step does not repeat
      steps_.add_(1);
      if (scale_.overflow.defined()) steps_.sub_(scale_.overflow);
      counted_ = true;
    }
    for (Range piece = range; piece.begin < range.end; piece.begin = piece.end) {
      piece.end = std::min(range.end, piece.begin + kWidened);
      update_elements(piece, settings);
    }
    buffers_.parameters_changed(range);
  }

  void count_no_step() override { counted_ = true; }

  virtual void update_elements(Range range, const GroupSettings& settings) = 0;

  bool counted_ = false;
};

class AtenAdamw final : public AtenOptimizer {
 public:
  using AtenOptimizer::AtenOptimizer;

 private:
  void update_elements(Range range, const GroupSettings& settings) override {
    const at::Tensor gradients = this->gradients(range);
    std::optional<at::Tensor> divisor;
    if (scale_.factor.defined()) divisor = scale_.factor.reciprocal();
    std::optional<at::Tensor> overflow;
    if (scale_.overflow.defined()) overflow = scale_.overflow;
    moments_.for_each_part(
        range, [&](Range part, const Moments::Arrays& moments, std::int64_t from) {
          const at::Tensor gradient = gradients.narrow(0, part.begin - range.begin, part.size());
          const Wide parameter(buffers_.parameters(part));
          const Wide mean(moments[0].narrow(0, from, part.size()));
          const Wide square(moments[1].narrow(0, from, part.size()));
          at::_fused_adamw_({parameter.values()}, {gradient}, {mean.values()}, {square.values()},
                            /*max_exp_avg_sqs=*/{}, {steps_}, rate(settings), config_.betas[0],
                            config_.betas[1], settings.weight_decay, config_.eps, /*amsgrad=*/false,
                            /*maximize=*/false, divisor, overflow);
          for (const Wide* each : {&parameter, &mean, &square}) each->put_back();
        });
  }
};

class AtenSgd final : public AtenOptimizer {
 public:
  using AtenOptimizer::AtenOptimizer;

 private:
  void update_elements(Range range, const GroupSettings& settings) override {
    const at::Tensor parameters = buffers_.parameters(range);
    at::Tensor direction = gradients(range);
    if (scale_.factor.defined()) direction = direction * scale_.factor;
    direction = direction.add(parameters, settings.weight_decay);
    if (moments_.count() > 0) {
      moments_.for_each_part(
          range, [&](Range part, const Moments::Arrays& moments, std::int64_t from) {
            const at::Tensor moment = moments[0].narrow(0, from, part.size());
            const at::Tensor piece = direction.narrow(0, part.begin - range.begin, part.size());
            piece.add_(moment, config_.momentum);
            replace(moment, piece);
          });
    }
    replace(parameters, parameters - direction * rate(settings));
  }

  /// Unless the step overflowed.
  void replace(const at::Tensor& values, const at::Tensor& after) const {
    values.copy_(scale_.overflow.defined() ? at::where(scale_.overflow.gt(0), values, after)
                                           : after);
  }
};

}  // namespace

std::unique_ptr<Optimizer> make_aten_optimizer(const OptimizerConfig& config,
                                               FlatBuffers& buffers) {
  if (config.name == OptimizerKind::sgd) return std::make_unique<AtenSgd>(config, buffers);
  return std::make_unique<AtenAdamw>(config, buffers);
}

at::Tensor aten_norm(const at::Tensor& values) {
  return at::linalg_vector_norm(values, 2, std::nullopt, /*keepdim=*/false, at::kDouble);
}

}  // namespace ddprun
