// Strategy "fsdp": parameters, gradients and moments are kept in parts (Rajbhandari et al., SC
// 2020, section 5.3; Zhao et al., VLDB 2023: fully sharded data parallelism).
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// Each rank keeps a slice of each unit. Before a unit is used, its parameters are gathered; while
/// it computes, those of the next unit travel. There is room for two units, so backward gathers
/// again what forward had, but for the last two, which are still there. Gradients are
/// reduce-scattered as soon as backward has left the unit, as zero2 does.
class Fsdp final : public Strategy {
 public:
  std::optional<Refusal> unsupported(const RunDescription& run) const override {
    if (run.recomputed_blocks > 1) {
      return Refusal{.reason =
                         "units that are computed again are gathered once more, and the plan "
                         "knows of single blocks only",
                     .expected = "model.recompute every_block or none",
                     .hint = "set `recompute: every_block` under `model:`"};
    }
    if (auto refusal = refuse_tied_units(run)) return refusal;
    return refuse_captured_steps(run);
  }

  Plan plan(const ParameterLayout& layout, int rank) const override {
    Plan plan;
    plan.holding.parameters = plan.holding.gradients = Held::by_unit;
    const auto& units = layout.units();
    for (std::size_t unit = 0; unit < units.size(); ++unit) {
      const Range range = units[unit].range;
      plan.add_gather(layout, range, PlannedIn::each_micro_batch);
      if (unit + 2 < units.size()) plan.add_gather(layout, range, PlannedIn::each_micro_batch);
      plan.add_reduce_scatter(layout, range, PlannedIn::each_micro_batch);
      plan.holding.owned.push_back(layout.slice(range, rank));
    }
    return plan;
  }

  void setup(StrategyContext& context) override {
    Strategy::setup(context);
    gathered_.resize(units().size());
    reduced_.resize(units().size());
    forget();
  }

  void before_forward() override { forget(); }

  void before_unit(Pass pass, int unit) override {
    // Its gradients go where those of the unit after the next have been.
    if (pass == Pass::backward && unit + 2 < size()) reduced_[unit + 2].wait();
    want(unit);
    gathered_[unit].wait();
    want(pass == Pass::forward ? unit + 1 : unit - 1);
  }

  void after_unit(Pass pass, int unit) override {
    if (pass == Pass::forward) return;
    reduced_[unit] = context_->reduce_scatter_gradients(units()[unit].range, units()[unit].name);
  }

  void finish_backward() override {
    for (int unit = size() - 1; unit >= 0; --unit) {
      reduced_[unit].wait();
      context_->range_ready(
          context_->layout().slice(units()[unit].range, context_->group().rank()));
    }
  }

  void update() override {
    context_->update_rest();
    forget();
  }

  bool reports_ranges() const override { return true; }

 private:
  const std::vector<Unit>& units() const { return context_->layout().units(); }
  int size() const { return static_cast<int>(gathered_.size()); }

  /// Starts to gather the unit, unless it is there. There is room for it and a neighbour.
  void want(int unit) {
    if (unit < 0 || unit >= size() || there_[unit]) return;
    for (int other = 0; other < size(); ++other) {
      if (std::abs(other - unit) > 1) there_[other] = false;
    }
    there_[unit] = true;
    gathered_[unit] = context_->gather_parameters(units()[unit].range, units()[unit].name);
  }

  /// What lies in the units' places may be of other parameters.
  void forget() { there_.assign(units().size(), false); }

  std::vector<bool> there_;         // by unit: in its place, or on the way
  std::vector<Transfer> gathered_;  // by unit
  std::vector<Transfer> reduced_;   // by unit
};

}  // namespace ddprun

DDPRUN_STRATEGY(ddprun::Fsdp, "fsdp",
                "each rank keeps a slice of everything; units are gathered to be used", "1.0")
