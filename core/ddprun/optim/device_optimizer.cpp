// AdamW and SGD over ranges of the flat buffers on a device that works behind the host: AdamW by a
// kernel of our own, SGD operator by operator.
#include "ddprun/optim/optimizer.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>

namespace ddprun {

namespace {

using In = const at::Tensor&;
/// Every value that differs from step to step is a tensor on the device: nothing waits for it, and
/// a captured step reads what begin_step() wrote.
class DeviceOptimizer : public Optimizer {
 public:
  DeviceOptimizer(const OptimizerConfig& config, FlatBuffers& buffers)
      : Optimizer(config, buffers),
        lr_(at::zeros({}, buffers.parameter(0).options().dtype(at::kFloat).requires_grad(false))),
        steps_(at::zeros_like(lr_)) {}

  std::int64_t updates() const override { return steps_.item<std::int64_t>(); }
  void set_updates(std::int64_t updates) override { steps_.fill_(updates); }

 protected:
  /// float32 ().
  at::Tensor rate(const GroupSettings& settings) const {
    return settings.lr_scale == 1.0 ? lr_ : lr_ * settings.lr_scale;
  }

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
    update_elements(range, settings);
  }

  void count_no_step() override { counted_ = true; }

  /// And the copy that products read.
  virtual void update_elements(Range range, const GroupSettings& settings) = 0;

  bool counted_ = false;
};

TORCH_LIBRARY_FRAGMENT(ddprun, library) {
  library.def(
      "adamw(Tensor gradient, Tensor(a!) parameter, Tensor(b!)[] moments, Tensor(c!)? copy, "
      "Tensor[] step, float[] settings) -> ()");
}

/// By a kernel of the device's (cuda/kernels/optimizer.h), which reads and writes each value once.
class DeviceAdamw final : public DeviceOptimizer {
 public:
  using DeviceOptimizer::DeviceOptimizer;

 private:
  void update_elements(Range range, const GroupSettings& settings) override {
    const at::Tensor gradients = buffers_.mean(range);
    const auto piece_of = [&](Range piece, const Moments::Arrays& moments, std::int64_t from) {
      if (piece.size() == 0) return;
      const at::Tensor copy = buffers_.compute_copy(piece);
      const bool written = copy.defined() && copy.scalar_type() == at::kBFloat16;
      update(gradients.narrow(0, piece.begin - range.begin, piece.size()),
             buffers_.parameters(piece),
             {moments[0].narrow(0, from, piece.size()), moments[1].narrow(0, from, piece.size())},
             written ? std::optional(copy) : std::nullopt, settings);
      if (!written) buffers_.parameters_changed(piece);
    };
    moments_.for_each_part(
        range, [&](Range part, const Moments::Arrays& moments, std::int64_t from) {
          const std::int64_t cut = std::clamp(buffers_.copied().end, part.begin, part.end);
          piece_of({part.begin, cut}, moments, from);
          piece_of({cut, part.end}, moments, from + cut - part.begin);
        });
  }

  void update(In gradient, In parameter, at::TensorList moments,
              const std::optional<at::Tensor>& copy, const GroupSettings& settings) {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("ddprun::adamw", "")
                               .typed<void(In, In, at::TensorList, const std::optional<at::Tensor>&,
                                           at::TensorList, at::ArrayRef<double>)>();
    op.call(gradient, parameter, moments, copy,
            {rate(settings), steps_, scale_.factor, scale_.overflow},
            {config_.betas[0], config_.betas[1], settings.weight_decay, config_.eps});
  }
};

class AtenSgd final : public DeviceOptimizer {
 public:
  using DeviceOptimizer::DeviceOptimizer;
  /// An operator may multiply and add in one rounding where a vector is full, and in two elsewhere.
  bool rounds_the_same_everywhere() const override { return false; }

 private:
  /// Elements that are computed at a time, for what lies between the operators is float32.
  static constexpr std::int64_t kAtATime = 16 << 20;

  void update_elements(Range range, const GroupSettings& settings) override {
    for (Range piece = range; piece.begin < range.end; piece.begin = piece.end) {
      piece.end = std::min(range.end, piece.begin + kAtATime);
      update_piece(piece, settings);
    }
    buffers_.parameters_changed(range);
  }

  void update_piece(Range range, const GroupSettings& settings) {
    const at::Tensor parameters = buffers_.parameters(range);
    at::Tensor direction = buffers_.mean(range).to(at::kFloat);
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

std::unique_ptr<Optimizer> make_device_optimizer(const OptimizerConfig& config,
                                                 FlatBuffers& buffers) {
  if (config.name == OptimizerKind::sgd) return std::make_unique<AtenSgd>(config, buffers);
  return std::make_unique<DeviceAdamw>(config, buffers);
}

at::Tensor aten_norm(const at::Tensor& values) {
  return at::linalg_vector_norm(values, 2, std::nullopt, /*keepdim=*/false, at::kDouble);
}

}  // namespace ddprun
