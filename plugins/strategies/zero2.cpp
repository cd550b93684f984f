// Strategy "zero2": gradients are kept in parts too (Rajbhandari et al., SC 2020, section 5.2:
// gradient partitioning).
#include <optional>

#include "ddprun/plugin/export.h"
#include "ddprun/plugin/parts/unit_exchanges.h"
#include "ddprun/plugin/run_description.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// A unit's gradients are reduce-scattered as soon as backward has left the unit. Each rank keeps
/// the mean of its slice, to which further micro-batches add, and the memory of the rest serves the
/// unit after the next. Parameters are updated and gathered unit by unit, as zero1 does.
class Zero2 final : public Strategy {
 public:
  std::optional<Refusal> unsupported(const RunDescription& run) const override {
    return refuse_captured_steps(run);
  }

  Plan plan(const ParameterLayout& layout, int rank) const override {
    Plan plan;
    plan.holding.gradients = Held::by_unit;
    for (const Unit& unit : layout.units()) {
      plan_reduce_scatter(plan, layout, unit.range, PlannedIn::each_micro_batch);
      plan_gather(plan, layout, unit.range);
      plan.holding.owned.push_back(layout.slice(unit.range, rank));
    }
    return plan;
  }

  void setup(StrategyContext& context) override {
    Strategy::setup(context);
    gradients_.emplace(context);
  }

  void before_unit(Pass pass, int unit) override { gradients_->before_unit(pass, unit); }
  void after_unit(Pass pass, int unit) override { gradients_->after_unit(pass, unit); }

  void finish_backward() override {
    gathered_.clear();
    gradients_->finish([this](int unit) {
      if (context_->range_ready(context_->slices().own(units()[unit].range))) gather(unit);
    });
  }

  void update() override {
    const bool updated = !gathered_.empty();  // with optimizer.overlap
    for (int unit = static_cast<int>(units().size()) - 1; unit >= 0 && !updated; --unit) {
      context_->update(context_->slices().own(units()[unit].range));
      gather(unit);
    }
    for (Transfer& parameters : gathered_) parameters.wait();
    gathered_.clear();
  }

  bool reports_ranges() const override { return true; }

 private:
  const std::vector<Unit>& units() const { return context_->layout().units(); }
  void gather(int unit) {
    gathered_.push_back(
        context_->slices().gather_parameters(units()[unit].range, units()[unit].name));
  }

  std::optional<UnitGradients> gradients_;  // from setup() on
  std::vector<Transfer> gathered_;          // of this step's update
};

}  // namespace ddprun

DDPRUN_STRATEGY(ddprun::Zero2, "zero2",
                "each rank keeps a slice of each unit's gradients, and updates it", "1.0")
