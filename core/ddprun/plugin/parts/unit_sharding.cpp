// Gathers of parameters and exchanges of gradients, unit by unit.
#include "ddprun/plugin/parts/unit_sharding.h"

#include "ddprun/base/options.h"
#include "ddprun/plugin/run_description.h"

namespace ddprun {

void UnitSharding::declare_options(Options& options) {
  options.option("reshard_after_forward", &reshard_after_forward_,
                 "let go of a unit when forward has left it, and gather it again for backward");
}

Plan UnitSharding::plan(const ParameterLayout& layout, int rank) const {
  Plan plan;
  plan.holding.parameters = plan.holding.gradients = Placement::sharded;
  plan.holding.place_for_each_unit = after_forward() == AfterForward::keep;
  plan.reports_ranges = true;
  UnitParameters::plan(plan, layout, after_forward());
  plan_gather_norms(plan, layout);
  const int parts = shards(layout);
  if (parts != layout.ranks()) plan.holding.shards = parts;
  if (layout.ranks() % parts != 0) return plan;  // is refused, on all ranks
  for (const Unit& unit : layout.units()) {
    plan_reduce_scatter(plan, layout, unit.range, PlannedIn::each_micro_batch);
    plan.holding.owned.push_back(layout.slice(unit.range, rank % parts, parts));
  }
  return plan;
}

void UnitSharding::setup(StrategyContext& context) {
  Strategy::setup(context);
  parameters_.emplace(context, after_forward());
  gradients_.emplace(context, [this](int unit) { arrived(unit); });
  listen(context, *this);
}

void UnitSharding::arrived(int /*unit*/) {}

void UnitSharding::before_forward(MicroBatch micro_batch) {
  micro_batch_ = micro_batch;
  parameters_->before_forward(micro_batch);
}

void UnitSharding::before_unit(Pass pass, int unit) {
  gradients_->before_unit(pass, unit);
  parameters_->before_unit(pass, unit);
}

void UnitSharding::after_unit(Pass pass, int unit) { gradients_->after_unit(pass, unit); }

void UnitSharding::finish_backward() {
  gradients_->finish([this](int unit) { finish_unit(unit); });
}

void UnitSharding::update() {
  context_->update_rest();
  parameters_->forget();
  slices(*context_).gather_norms().wait();
}

std::optional<Refusal> UnitSharding::unsupported(const RunDescription& run) const {
  if (run.recomputed_units > 1 && reshard_after_forward_) {
    return Refusal{
        .reason =
            "units that are computed again are gathered once more, and the plan "
            "knows of single units only",
        .expected =
            "model.recompute none, or every_block with model.unit block, or "
            "reshard_after_forward false",
        .hint =
            "under `model:`, `recompute: every_block` and `unit: block`; or let units stay: "
            "`reshard_after_forward: false`"};
  }
  return {};
}

}  // namespace ddprun
