// Strategy "zero2": gradients are kept in parts too (Rajbhandari et al., SC 2020, section 5.2:
// gradient partitioning).
#include <optional>

#include "ddprun/plugin/export.h"
#include "ddprun/plugin/parts/unit_exchanges.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// A unit's gradients are reduce-scattered as soon as backward has left the unit. Each rank keeps
/// the mean of its slice, to which further micro-batches add, and the memory of the rest serves the
/// unit after the next. Parameters are updated and gathered unit by unit, as zero1 does.
class Zero2 final : public Strategy, public UnitListener {
 public:
  Plan plan(const ParameterLayout& layout, int rank) const override {
    Plan plan{.holding = {.gradients = Placement::sharded}, .reports_ranges = true};
    for (const Unit& unit : layout.units()) {
      plan_reduce_scatter(plan, layout, unit.range, PlannedIn::each_micro_batch);
      plan_gather(plan, layout, unit.range);
      plan.holding.owned.push_back(layout.slice(unit.range, rank));
    }
    plan_gather_norms(plan, layout);
    return plan;
  }

  void setup(StrategyContext& context) override {
    Strategy::setup(context);
    gradients_.emplace(context);
    listen(context, *this);
  }

  void before_unit(Pass pass, int unit) override { gradients_->before_unit(pass, unit); }
  void after_unit(Pass pass, int unit) override { gradients_->after_unit(pass, unit); }

  void finish_backward() override {
    gathered_.clear();
    gradients_->finish([this](int unit) {
      if (context_->range_ready(slices(*context_).own(units()[unit].range))) gather(unit);
    });
  }

  void update() override {
    const bool updated = !gathered_.empty();  // with optimizer.overlap
    for (int unit = static_cast<int>(units().size()) - 1; unit >= 0 && !updated; --unit) {
      slices(*context_).update(slices(*context_).own(units()[unit].range));
      gather(unit);
    }
    gathered_.push_back(slices(*context_).gather_norms());
    for (Transfer& parameters : gathered_) parameters.wait();
    gathered_.clear();
  }

 private:
  const std::vector<Unit>& units() const { return context_->layout().units(); }
  void gather(int unit) {
    gathered_.push_back(
        slices(*context_).gather_parameters(units()[unit].range, units()[unit].name));
  }

  std::optional<UnitGradients> gradients_;  // from setup() on
  std::vector<Transfer> gathered_;          // of this step's update
};

}  // namespace ddprun

DDPRUN_STRATEGY(ddprun::Zero2, "zero2",
                "each rank keeps a slice of each unit's gradients, and updates it", "1.1")
