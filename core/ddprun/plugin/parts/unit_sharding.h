// What fully sharded strategies have in common.
#pragma once

#include <optional>

#include "ddprun/plugin/parts/unit_exchanges.h"

namespace ddprun {

/// Each rank keeps a slice of each unit. Before a unit is used, its parameters are gathered; while
/// it computes, those of the next unit travel. Gradients are reduce-scattered as soon as backward
/// has left the unit. An override calls what it overrides.
class UnitSharding : public Strategy, public UnitListener {
 public:
  /// `reshard_after_forward`.
  void declare_options(Options& options) override;
  std::optional<Refusal> unsupported(const RunDescription& run) const override;
  Plan plan(const ParameterLayout& layout, int rank) const override;
  void setup(StrategyContext& context) override;
  void before_forward(MicroBatch micro_batch) override;
  void before_unit(Pass pass, int unit) override;
  void after_unit(Pass pass, int unit) override;
  void finish_backward() override;
  void update() override;

 protected:
  /// The ranks that hold everything together: by default all.
  virtual int shards(const ParameterLayout& layout) const { return layout.ranks(); }
  /// Called once in each micro-batch for each unit, when this rank's slice is the mean of those
  /// ranks; the default does nothing.
  virtual void arrived(int unit);
  /// Called after it for each unit, in finish_backward(): the default says that the slice is ready.
  virtual void finish_unit(int unit) { context_->range_ready(own(unit)); }

  /// What this rank owns of a unit.
  Range own(int unit) const {
    return slices(*context_).own(context_->layout().units()[unit].range);
  }
  bool last_micro_batch() const { return micro_batch_.last(); }

 private:
  AfterForward after_forward() const {
    return reshard_after_forward_ ? AfterForward::reshard : AfterForward::keep;
  }

  bool reshard_after_forward_ = true;
  MicroBatch micro_batch_;                    // whose forward began last
  std::optional<UnitParameters> parameters_;  // from setup() on
  std::optional<UnitGradients> gradients_;
};

}  // namespace ddprun
