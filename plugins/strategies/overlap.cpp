// Strategy "overlap": each gradient's all-reduce starts during backward (CS336 assignment 2,
// section 2: overlapping individual gradients).
#include <optional>

#include "ddprun/plugin/export.h"
#include "ddprun/plugin/parts/gradient_reductions.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// As many collectives as "naive", but backward computes earlier layers while later layers'
/// gradients travel.
class Overlap final : public Strategy {
 public:
  Plan plan(const ParameterLayout& layout, int /*rank*/) const override {
    Plan plan{.reports_ranges = true};
    for (int i = 0; i < layout.count(); ++i) {
      plan.add(CollectiveKind::all_reduce, layout.gradient_bytes(layout.range(i)));
    }
    return plan;
  }

  void setup(StrategyContext& context) override {
    Strategy::setup(context);
    reductions_.emplace(context);
  }

  void on_gradient(int index) override { reductions_->on_gradient(index); }

  void finish_backward() override {
    reductions_->finish(
        [this](int index) { context_->range_ready(context_->layout().range(index)); });
  }

 private:
  std::optional<GradientReductions> reductions_;  // from setup() on
};

}  // namespace ddprun

DDPRUN_STRATEGY(ddprun::Overlap, "overlap", "one all-reduce per gradient, started during backward",
                "1.0")
