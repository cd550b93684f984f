// Gradients and parameters of units on their way, for strategies whose ranks hold them in shards.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "ddprun/plugin/sharding.h"

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
  std::vector<std::optional<Transfer>> under_way_;  // by unit
};

/// Whether the memory of a unit's parameters serves another when forward has left the unit.
enum class AfterForward : std::uint8_t {
  /// There is room for two neighbours: backward gathers again, but for the last two. What another
  /// unit uses too stays (Unit::used_elsewhere).
  reshard,
  keep,  ///< each unit has its place, and is gathered once a step
};

/// Gathers a unit's parameters before it is used, while the unit before it computes (Zhao et al.,
/// VLDB 2023).
class UnitParameters {
 public:
  /// For setup(). Backward ends with unit `first_in_backward`.
  UnitParameters(StrategyContext& context, AfterForward after_forward, int first_in_backward = 0);

  /// For plan(): what an object made with these issues.
  static void plan(Plan& plan, const ParameterLayout& layout, AfterForward after_forward,
                   int first_in_backward = 0);

  void before_forward(MicroBatch micro_batch);
  void before_unit(Pass pass, int unit);
  /// Starts to gather the unit, unless it is there. before_unit() does it for the next one.
  void start(int unit);
  /// After an update: what lies in the units' places is old.
  void forget();

 private:
  StrategyContext& context_;
  AfterForward after_forward_;
  int first_in_backward_;
  std::vector<bool> there_;  // by unit: in its place, or on the way
  std::vector<Transfer> transfers_;
};

}  // namespace ddprun
