// Strategy "fsdp": parameters, gradients and moments are kept in parts (Rajbhandari et al., SC
// 2020, section 5.3; Zhao et al., VLDB 2023: fully sharded data parallelism).
#include <optional>

#include "ddprun/plugin/strategy.h"
#include "ddprun/plugin/unit_exchanges.h"

namespace ddprun {

/// Each rank keeps a slice of each unit. Before a unit is used, its parameters are gathered; while
/// it computes, those of the next unit travel. Gradients are reduce-scattered as soon as backward
/// has left the unit.
class Fsdp final : public Strategy {
 public:
  void declare_options(Options& options) override {
    options.option("reshard_after_forward", &reshard_after_forward_,
                   "let go of a unit when forward has left it, and gather it again for backward");
  }

  std::optional<Refusal> unsupported(const RunDescription& run) const override {
    return refuse_unit_gathers(run, after_forward());
  }

  Plan plan(const ParameterLayout& layout, int rank) const override {
    Plan plan;
    plan.holding.gradients = Held::by_unit;
    hold_unit_parameters(plan, layout, after_forward());
    for (const Unit& unit : layout.units()) {
      plan.add_reduce_scatter(layout, unit.range, PlannedIn::each_micro_batch);
      plan.holding.owned.push_back(layout.slice(unit.range, rank));
    }
    return plan;
  }

  void setup(StrategyContext& context) override {
    Strategy::setup(context);
    parameters_.emplace(context, after_forward());
    gradients_.emplace(context);
  }

  void before_forward() override { parameters_->before_forward(); }

  void before_unit(Pass pass, int unit) override {
    gradients_->before_unit(pass, unit);
    parameters_->before_unit(pass, unit);
  }

  void after_unit(Pass pass, int unit) override { gradients_->after_unit(pass, unit); }

  void finish_backward() override {
    gradients_->finish([this](int unit) {
      context_->range_ready(context_->own(context_->layout().units()[unit].range));
    });
  }

  void update() override {
    context_->update_rest();
    parameters_->forget();
  }

  bool reports_ranges() const override { return true; }

 private:
  AfterForward after_forward() const {
    return reshard_after_forward_ ? AfterForward::reshard : AfterForward::keep;
  }

  bool reshard_after_forward_ = true;
  std::optional<UnitParameters> parameters_;  // from setup() on
  std::optional<UnitGradients> gradients_;
};

}  // namespace ddprun

DDPRUN_STRATEGY(ddprun::Fsdp, "fsdp",
                "each rank keeps a slice of everything; units are gathered to be used", "1.1")
