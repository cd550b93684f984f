// Strategy "fsdp": parameters, gradients and moments are kept in parts (Rajbhandari et al., SC
// 2020, section 5.3; Zhao et al., VLDB 2023: fully sharded data parallelism).
#include "ddprun/plugin/export.h"
#include "ddprun/plugin/parts/unit_sharding.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// Each rank keeps a slice of each unit. Before a unit is used, its parameters are gathered; while
/// it computes, those of the next unit travel. Gradients are reduce-scattered as soon as backward
/// has left the unit.
class Fsdp final : public UnitSharding {
 public:
  Plan plan(const ParameterLayout& layout, int rank) const override {
    Plan plan;
    plan_units(plan, layout);
    for (const Unit& unit : layout.units()) {
      plan_reduce_scatter(plan, layout, unit.range, PlannedIn::each_micro_batch);
      plan.holding.owned.push_back(layout.slice(unit.range, rank));
    }
    return plan;
  }

  void setup(StrategyContext& context) override {
    Strategy::setup(context);
    begin(context);
  }

  void finish_backward() override {
    gradients().finish([this](int unit) { context_->range_ready(own(unit)); });
  }
};

}  // namespace ddprun

DDPRUN_STRATEGY(ddprun::Fsdp, "fsdp",
                "each rank keeps a slice of everything; units are gathered to be used", "1.3")
