// Strategy "naive": after backward, one blocking all-reduce for each gradient (CS336 assignment 2,
// section 2: naive DDP).
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// As many collectives as parameters, one at a time: each pays the full latency, and none overlaps
/// with anything.
class Naive final : public Strategy {
 public:
  void setup(StrategyContext& context) override {
    context_ = &context;
    context.broadcast_parameters();
    const FlatBuffers& buffers = context.buffers();
    for (int i = 0; i < buffers.count(); ++i) {
      context.plan(CollectiveKind::all_reduce, buffers.gradient_bytes(buffers.range(i)));
    }
  }

  void finish_backward() override {
    const FlatBuffers& buffers = context_->buffers();
    for (int i = 0; i < buffers.count(); ++i) {
      const at::Tensor gradient = buffers.gradients(buffers.range(i));
      context_->group().all_reduce(gradient, ReduceOp::avg, buffers.name(i)).wait();
    }
  }

 private:
  StrategyContext* context_ = nullptr;
};

}  // namespace ddprun

DDPRUN_STRATEGY(ddprun::Naive, "naive", "one blocking all-reduce per gradient, after backward",
                "1.0")
