// Data parallelism for any model: hooks tell the strategy of each final gradient, then the
// optimizer runs.
#include "ddprun/train/data_parallel.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "ddprun/config/experiment.h"
#include "ddprun/measure/clock.h"

namespace ddprun {

/// Runs on the autograd thread after a parameter's gradient was accumulated, or written by a fused
/// kernel: a hook of the parameter's node, as c10d::Reducer has it, runs for both.
class DataParallel::Hook : public torch::autograd::FunctionPostHook {
 public:
  Hook(DataParallel& owner, int index) : owner_(owner), index_(index) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    owner_.on_accumulated(index_);
    return outputs;
  }

 private:
  DataParallel& owner_;
  int index_;
};

DataParallel::DataParallel(const std::vector<NamedTensor>& parameters, ProcessGroup& group,
                           Strategy& strategy, Precision& precision,
                           const OptimizerConfig& optimizer)
    : buffers_(parameters, {precision.compute_dtype(), precision.reduce_dtype()},
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
    auto node = torch::autograd::impl::grad_accumulator(buffers_.parameter(index));
    const auto key = node->add_post_hook(std::make_unique<Hook>(*this, index));
    hooks_.emplace_back(std::move(node), key);
  }
}

DataParallel::~DataParallel() {
  for (const auto& [node, key] : hooks_) node->del_post_hook(key);
}

void DataParallel::on_accumulated(int index) {
  if (!buffers_.adopt_gradient(index)) return;
  if (last_micro_batch_) buffers_.finish_gradient(index);
  last_gradient_ns_ = now_ns();
  ++gradients_seen_;
  if (last_micro_batch_) strategy_.on_gradient(index);
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
  if (gradients_seen_ != buffers_.count()) {
    throw Error({.what = "backward did not reach every parameter",
                 .got = std::to_string(gradients_seen_) + " gradients",
                 .expected = std::to_string(buffers_.count()) + ", one for each parameter",
                 .hint = "a parameter that the loss does not depend on must not be given to "
                         "DataParallel"});
  }
  times.last_gradient_ns = last_gradient_ns_;
  if (last) strategy_.finish_backward();
  times.synchronised_ns = now_ns();
  return times;
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
  buffers_.drop_gradients();
  return {norm, finite};
}

}  // namespace ddprun
