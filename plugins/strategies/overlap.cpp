// Strategy "overlap": each gradient's all-reduce starts during backward (CS336 assignment 2,
// section 2: overlapping individual gradients).
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// As many collectives as "naive", but backward computes earlier layers while later layers'
/// gradients travel (Li et al., VLDB 2020, section 3.2.3). A gradient waits for those before it in
/// buffer order, so that ranks agree on the order of collectives whatever order autograd finishes
/// in.
class Overlap final : public Strategy {
 public:
  Plan plan(const ParameterLayout& layout, int /*rank*/) const override {
    Plan plan;
    for (int i = 0; i < layout.count(); ++i) {
      plan.add(CollectiveKind::all_reduce, layout.gradient_bytes(layout.range(i)));
    }
    return plan;
  }

  void setup(StrategyContext& context) override {
    Strategy::setup(context);
    const ParameterLayout& layout = context.layout();
    for (int i = 0; i < layout.count(); ++i) {
      gradients_.push_back(context.gradients(layout.range(i)));
    }
    final_.assign(gradients_.size(), false);
    works_.reserve(gradients_.size());
  }

  void on_gradient(int index) override {
    final_[index] = true;
    while (works_.size() < gradients_.size() && final_[works_.size()]) start_next();
  }

  void finish_backward() override {
    // A parameter that this backward did not use has a gradient of zero here, but maybe not on
    // other ranks.
    while (works_.size() < gradients_.size()) start_next();
    for (std::size_t i = 0; i < works_.size(); ++i) {
      works_[i].wait();
      context_->range_ready(context_->layout().range(static_cast<int>(i)));
    }
    works_.clear();
    final_.assign(gradients_.size(), false);
  }

  bool reports_ranges() const override { return true; }

 private:
  void start_next() {
    const std::size_t next = works_.size();
    const std::string& label = context_->layout().name(static_cast<int>(next));
    works_.push_back(context_->group().all_reduce(gradients_[next], ReduceOp::avg, label));
  }

  std::vector<at::Tensor> gradients_;  // views, made once
  std::vector<bool> final_;
  std::vector<Work> works_;  // of this step, one for each gradient started
};

}  // namespace ddprun

DDPRUN_STRATEGY(ddprun::Overlap, "overlap", "one all-reduce per gradient, started during backward",
                "1.0")
