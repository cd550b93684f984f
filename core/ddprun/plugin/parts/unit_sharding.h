// What fully sharded strategies have in common.
#pragma once

#include <functional>
#include <optional>

#include "ddprun/plugin/parts/unit_exchanges.h"

namespace ddprun {

/// Units of parameters are gathered to be used, and their gradients reduce-scattered.
class UnitSharding : public Strategy, public UnitListener {
 public:
  /// `reshard_after_forward`. An override calls it.
  void declare_options(Options& options) override;
  std::optional<Refusal> unsupported(const RunDescription& run) const override;
  void before_forward(MicroBatch micro_batch) override;
  void before_unit(Pass pass, int unit) override;
  void after_unit(Pass pass, int unit) override;
  void update() override;

 protected:
  /// For plan(): what is sharded, and the gathers.
  void plan_units(Plan& plan, const ParameterLayout& layout) const;
  /// For setup(), after the default. `arrived`: as UnitGradients takes it.
  void begin(StrategyContext& context, std::function<void(int unit)> arrived = {});
  /// For finish_backward().
  UnitGradients& gradients() { return *gradients_; }
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
  std::optional<UnitParameters> parameters_;  // from begin() on
  std::optional<UnitGradients> gradients_;
};

}  // namespace ddprun
