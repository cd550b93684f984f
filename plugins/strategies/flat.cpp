// Strategy "flat": after backward, one all-reduce of all gradients at once (CS336 assignment 2,
// section 2: flattened gradients).
#include <ATen/ops/cat.h>

#include <vector>

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

  void setup(StrategyContext& context) override {
    context_ = &context;
    context.broadcast_parameters();
    const FlatBuffers& buffers = context.buffers();
    std::int64_t bytes = 0;
    for (int i = 0; i < buffers.count(); ++i) {
      each_.push_back(buffers.gradients(buffers.range(i)));
      bytes += buffers.gradient_bytes(buffers.range(i));
    }
    context.plan(CollectiveKind::all_reduce, copy_ ? bytes : buffers.gradient_bytes(buffers.all()));
  }

  void finish_backward() override {
    const FlatBuffers& buffers = context_->buffers();
    const at::Tensor flat = copy_ ? at::cat(each_) : buffers.gradients(buffers.all());
    context_->group().all_reduce(flat, ReduceOp::avg, "gradients").wait();
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
  StrategyContext* context_ = nullptr;
  std::vector<at::Tensor> each_;  // views of the gradient buffer
};

}  // namespace ddprun

DDPRUN_STRATEGY(ddprun::Flat, "flat", "one all-reduce of all gradients, after backward", "1.1")
