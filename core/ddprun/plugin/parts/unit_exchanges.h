// What strategies have in common that hold gradients or parameters unit by unit.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "ddprun/plugin/sharding.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// Reduce-scatters a unit's gradients as soon as backward has left the unit (Rajbhandari et al., SC
/// 2020, section 5.2). The unit after the next uses the same memory, so it waits for them. A plan
/// has plan_reduce_scatter() of each unit, in each micro-batch.
class UnitGradients {
 public:
  /// For setup(). `context` outlives each call. `arrived` (may be empty) is called once in
  /// each micro-batch for each unit, when this rank's slice is the mean: in finish(), or before a
  /// unit in backward.
  explicit UnitGradients(StrategyContext& context, std::function<void(int unit)> arrived = {});

  void before_unit(Pass pass, int unit);
  void after_unit(Pass pass, int unit);
  /// For finish_backward(): waits for the units in the order of backward, and calls `then` for
  /// each.
  void finish(const std::function<void(int unit)>& then);

 private:
  void wait(int unit);

  StrategyContext& context_;
  std::function<void(int unit)> arrived_;
  std::vector<bool> under_way_;  // by unit
  std::vector<Transfer> transfers_;
};

/// Whether the memory of a unit's parameters serves another when forward has left the unit.
enum class AfterForward : std::uint8_t {
  /// There is room for two neighbours: backward gathers again, but for the last two. What another
  /// unit uses too stays (Unit::used_elsewhere).
  reshard,
  keep,  ///< each unit has its place, and is gathered once a step
};

/// Which gathers there are.
struct UnitGathers {
  AfterForward after_forward = AfterForward::reshard;
  /// Norms do not travel with their units: all of them are gathered once a step
  /// (BufferHolding::replicate_norms).
  bool norms_stay = false;
  int first_in_backward = 0;  ///< backward ends with this unit
};

/// Gathers a unit's parameters before it is used, while the unit before it computes (Zhao et al.,
/// VLDB 2023).
class UnitParameters {
 public:
  /// For setup().
  UnitParameters(StrategyContext& context, UnitGathers gathers);

  /// For plan(), with plan.holding as it will be: what an object made with these issues.
  static void plan(Plan& plan, const ParameterLayout& layout, UnitGathers gathers);

  void before_unit(Pass pass, int unit);
  void before_forward();
  /// Starts to gather the unit, unless it is there. before_unit() does it for the next one.
  void start(int unit);
  /// After an update: what lies in the units' places is old.
  void forget();

 private:
  void forget_units();
  void start_norms();

  StrategyContext& context_;
  UnitGathers gathers_;
  std::vector<bool> there_;  // by unit: in its place, or on the way
  std::vector<Transfer> transfers_;
  bool norms_there_ = false;
  Transfer norms_;
};

/// What fully sharded strategies have in common: units of parameters are gathered to be used, and
/// their gradients reduce-scattered.
class UnitSharding : public Strategy {
 public:
  /// `reshard_after_forward`, `replicate_norms`. An override calls it.
  void declare_options(Options& options) override;
  std::optional<Refusal> unsupported(const RunDescription& run) const override;
  void before_forward() override;
  void before_unit(Pass pass, int unit) override;
  void after_unit(Pass pass, int unit) override;
  void update() override;
  bool reports_ranges() const override { return true; }

 protected:
  /// For plan(): what is held, and the gathers.
  void hold_units(Plan& plan, const ParameterLayout& layout) const;
  /// For setup(). `arrived`: as UnitGradients takes it.
  void begin(StrategyContext& context, std::function<void(int unit)> arrived = {});
  /// For finish_backward().
  UnitGradients& gradients() { return *gradients_; }
  /// What this rank owns of a unit.
  Range own(int unit) const {
    return context_->slices().own(context_->layout().units()[unit].range);
  }

 private:
  UnitGathers gathers(const ParameterLayout& layout) const;

  bool reshard_after_forward_ = true;
  bool replicate_norms_ = false;
  std::optional<UnitParameters> parameters_;  // from begin() on
  std::optional<UnitGradients> gradients_;
};

}  // namespace ddprun
