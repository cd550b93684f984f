// AdamW and SGD over ranges of the flat buffers, operator by operator.
#include "ddprun/train/aten_optimizer.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "ddprun/config/experiment.h"
#include "ddprun/train/moments.h"

namespace ddprun {

namespace {

class AtenAdamw final : public Optimizer {
 public:
  AtenAdamw(const OptimizerConfig& config, FlatBuffers& buffers)
      : Optimizer(buffers),
        beta1_(config.betas[0]),
        beta2_(config.betas[1]),
        eps_(config.eps),
        weight_decay_(config.weight_decay) {}

 private:
  void update_range(Range range) override {
    at::Tensor gradients = buffers_.gradients(range).to(at::kFloat);
    if (gradient_scale_ != 1.0) gradients = gradients * gradient_scale_;
    const at::Tensor step = at::full({}, static_cast<double>(steps_), gradients.options());
    moments_.for_each_part(
        range, [&](Range part, const Moments::Arrays& moments, std::int64_t from) {
          const at::Tensor gradient = gradients.narrow(0, part.begin - range.begin, part.size());
          at::_fused_adamw_({buffers_.parameters(part)}, {gradient},
                            {moments[0].narrow(0, from, part.size())},
                            {moments[1].narrow(0, from, part.size())}, /*max_exp_avg_sqs=*/{},
                            {step}, lr_, beta1_, beta2_, weight_decay_, eps_, /*amsgrad=*/false,
                            /*maximize=*/false);
        });
    buffers_.parameters_changed(range);
  }

  double beta1_, beta2_, eps_, weight_decay_;
  Moments moments_{2, buffers_};
};

class AtenSgd final : public Optimizer {
 public:
  AtenSgd(const OptimizerConfig& config, FlatBuffers& buffers)
      : Optimizer(buffers),
        momentum_(config.momentum),
        weight_decay_(config.weight_decay),
        moments_(momentum_ == 0.0 ? 0 : 1, buffers) {}

 private:
  void update_range(Range range) override {
    const at::Tensor parameters = buffers_.parameters(range);
    at::Tensor direction = buffers_.gradients(range).to(at::kFloat) * gradient_scale_;
    direction.add_(parameters, weight_decay_);
    if (moments_.count() > 0) {
      moments_.for_each_part(
          range, [&](Range part, const Moments::Arrays& moments, std::int64_t from) {
            at::Tensor moment = moments[0].narrow(0, from, part.size());
            at::Tensor piece = direction.narrow(0, part.begin - range.begin, part.size());
            moment.mul_(momentum_).add_(piece);
            piece.copy_(moment);
          });
    }
    parameters.sub_(direction, lr_);
    buffers_.parameters_changed(range);
  }

  double momentum_, weight_decay_;
  Moments moments_;
};

}  // namespace

std::unique_ptr<Optimizer> make_aten_optimizer(const OptimizerConfig& config,
                                               FlatBuffers& buffers) {
  if (config.name == "sgd") return std::make_unique<AtenSgd>(config, buffers);
  return std::make_unique<AtenAdamw>(config, buffers);
}

double aten_norm(const at::Tensor& values) {
  return at::linalg_vector_norm(values, 2, std::nullopt, /*keepdim=*/false, at::kDouble)
      .item<double>();
}

}  // namespace ddprun
