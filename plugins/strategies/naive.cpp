// Strategy "naive": after backward, one blocking all-reduce for each gradient (CS336 assignment 2,
// section 2: naive DDP).
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// As many collectives as parameters, one at a time: each pays the full latency, and none overlaps
/// with anything.
class Naive final : public Strategy {
 public:
  Plan plan(const ParameterLayout& layout, int /*rank*/) const override {
    Plan plan;
    for (int i = 0; i < layout.count(); ++i) {
      plan.add(CollectiveKind::all_reduce, layout.gradient_bytes(layout.range(i)));
    }
    return plan;
  }

  void finish_backward() override {
    const ParameterLayout& layout = context_->layout();
    for (int i = 0; i < layout.count(); ++i) {
      const at::Tensor gradient = context_->gradients(layout.range(i));
      context_->group().all_reduce(gradient, ReduceOp::avg, layout.name(i), Await::next).wait();
    }
  }
};

}  // namespace ddprun

DDPRUN_STRATEGY(ddprun::Naive, "naive", "one blocking all-reduce per gradient, after backward",
                "1.0")
