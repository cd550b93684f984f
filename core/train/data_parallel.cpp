// Data parallelism for any model: hooks tell the strategy of each final gradient, then the
// optimizer runs.
#include "ddprun/train/data_parallel.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "ddprun/config/experiment.h"
#include "ddprun/measure/clock.h"

namespace ddprun {

/// Runs on the autograd thread after a parameter's gradient was accumulated.
class DataParallel::Hook : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(DataParallel& owner, int index) : owner_(owner), index_(index) {}

  void operator()(const at::Tensor&) override {
    owner_.last_gradient_ns_ = now_ns();
    ++owner_.gradients_seen_;
    if (owner_.last_micro_batch_) owner_.strategy_.on_gradient(index_);
  }

 private:
  DataParallel& owner_;
  int index_;
};

DataParallel::DataParallel(const std::vector<NamedTensor>& parameters, ProcessGroup& group,
                           Strategy& strategy, Precision& precision,
                           const OptimizerConfig& optimizer)
    : buffers_(parameters,
               [&group](std::int64_t elements, const at::TensorOptions& options) {
                 return group.allocate(elements, options);
               }),
      context_(group, buffers_),
      strategy_(strategy),
      precision_(precision),
      optimizer_(make_optimizer(optimizer, buffers_)) {
  strategy_.setup(context_);
  // Last: nothing that throws may leave hooks behind that point to this object.
  for (int index = 0; index < buffers_.count(); ++index) {
    torch::autograd::impl::set_post_acc_grad_hooks(buffers_.parameter(index),
                                                   std::make_unique<Hook>(*this, index));
  }
}

DataParallel::~DataParallel() {
  for (int index = 0; index < buffers_.count(); ++index) {
    torch::autograd::impl::set_post_acc_grad_hooks(buffers_.parameter(index), nullptr);
  }
}

void DataParallel::before_forward(bool last) {
  if (last) context_.run_before_forward();
}

BackwardTimes DataParallel::backward(const at::Tensor& loss, bool last) {
  last_micro_batch_ = last;
  gradients_seen_ = 0;
  BackwardTimes times;
  times.begin_ns = now_ns();
  loss.backward();
  check_gradients();
  times.last_gradient_ns = last_gradient_ns_;
  if (last) strategy_.finish_backward();
  times.synchronised_ns = now_ns();
  return times;
}

void DataParallel::check_gradients() const {
  if (gradients_seen_ != buffers_.count()) {
    throw Error({.what = "backward did not reach every parameter",
                 .got = std::to_string(gradients_seen_) + " gradients",
                 .expected = std::to_string(buffers_.count()) + ", one for each parameter",
                 .hint = "a parameter that the loss does not depend on must not be given to "
                         "DataParallel"});
  }
  for (int index = 0; index < buffers_.count(); ++index) {
    if (buffers_.owns_gradient(index)) continue;
    throw Error({.what = "a gradient left the flat buffer",
                 .where = buffers_.name(index),
                 .expected = ".grad to stay the view that DataParallel made",
                 .hint = "do not reset or replace .grad: DataParallel::step zeroes gradients"});
  }
}

std::pair<double, bool> DataParallel::step(double lr, double clip_norm) {
  const bool finite =
      precision_.unscale_gradients(buffers_.gradients(buffers_.all()), context_.group());
  double norm = 0.0;
  if (finite) {
    double scale = 1.0;
    if (clip_norm > 0.0) {
      norm = gradient_norm(buffers_);
      if (norm > clip_norm) scale = clip_norm / norm;
    }
    optimizer_->begin_step(lr, scale);
    strategy_.optimizer_step(*optimizer_);
  }
  buffers_.zero_gradients();
  return {norm, finite};
}

}  // namespace ddprun
