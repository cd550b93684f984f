// Strategy "flat": after backward, one all-reduce of all gradients at once (CS336 assignment 2,
// section 2: flattened gradients).
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// One collective pays the latency once. Nothing is copied, because backward writes gradients into
/// views of one buffer. Padding between them (under 64 bytes each, zero on every rank) travels
/// along.
class Flat final : public Strategy {
 public:
  void setup(StrategyContext& context) override {
    context_ = &context;
    context.broadcast_parameters();
    const FlatBuffers& buffers = context.buffers();
    context.plan(CollectiveKind::all_reduce, buffers.gradient_bytes(buffers.all()));
  }

  void finish_backward() override {
    const FlatBuffers& buffers = context_->buffers();
    const at::Tensor gradients = buffers.gradients(buffers.all());
    context_->group().all_reduce(gradients, ReduceOp::avg, "gradients").wait();
  }

 private:
  StrategyContext* context_ = nullptr;
};

}  // namespace ddprun

DDPRUN_STRATEGY(ddprun::Flat, "flat", "one all-reduce of all gradients, after backward", "1.0")
