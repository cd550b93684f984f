// Strategy "flat": after backward, one all-reduce of all gradients at once (CS336 assignment 2,
// section 2: flattened gradients).
#include <ATen/ops/cat.h>

#include <vector>

#include "ddprun/plugin/export.h"
#include "ddprun/plugin/options.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// One collective pays the latency once. Nothing is copied, because backward writes gradients into
/// views of one buffer. Padding between them (under 64 bytes each, zero on every rank) travels
/// along. With `copy` gradients are flattened into a fresh tensor and unflattened, as
/// torch._utils._flatten_dense_tensors does: no padding travels, and each gradient is copied twice.
class Flat final : public Strategy {
 public:
  void declare_options(Options& options) override {
    options.option(
        "copy", &copy_,
        "copy gradients into a fresh tensor and back, as code without flat buffers does");
  }

  Plan plan(const ParameterLayout& layout, int /*rank*/) const override {
    std::int64_t bytes = 0;
    for (int i = 0; i < layout.count(); ++i) bytes += layout.gradient_bytes(layout.range(i));
    Plan plan;
    plan.add(CollectiveKind::all_reduce, copy_ ? bytes : layout.gradient_bytes(layout.all()));
    return plan;
  }

  void setup(StrategyContext& context) override {
    Strategy::setup(context);
    const ParameterLayout& layout = context.layout();
    for (int i = 0; i < layout.count(); ++i) each_.push_back(context.gradients(layout.range(i)));
  }

  void finish_backward() override {
    const at::Tensor flat = copy_ ? at::cat(each_) : context_->gradients(context_->layout().all());
    context_->group().all_reduce(flat, ReduceOp::avg, "gradients", Await::next).wait();
    if (copy_) unflatten(flat);
  }

 private:
  void unflatten(const at::Tensor& flat) const {
    std::int64_t begin = 0;
    for (const at::Tensor& gradient : each_) {
      gradient.copy_(flat.narrow(0, begin, gradient.numel()));
      begin += gradient.numel();
    }
  }

  bool copy_ = false;
  std::vector<at::Tensor> each_;  // views of the gradient buffer
};

}  // namespace ddprun

DDPRUN_STRATEGY(ddprun::Flat, "flat", "one all-reduce of all gradients, after backward", "1.1")
