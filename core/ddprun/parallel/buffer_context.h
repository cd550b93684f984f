// The core's side of a strategy's context: the flat buffers, the group and the optimizer behind it.
#pragma once

#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "ddprun/comm/group/process_group.h"
#include "ddprun/optim/flat_buffers.h"
#include "ddprun/optim/optimizer.h"
#include "ddprun/plugin/deviations.h"
#include "ddprun/plugin/sharding.h"

namespace ddprun {

/// `group`, `shard_group` and `buffers` outlive it.
class BufferContext final : public StrategyContext, public Slices, public Deviations {
 public:
  /// `shard_group`: the ranks that own every element once, and this one among them.
  BufferContext(ProcessGroup& group, ProcessGroup& shard_group, FlatBuffers& buffers, Plan plan)
      : group_(group), shard_group_(shard_group), buffers_(buffers), plan_(std::move(plan)) {}

  ProcessGroup& process_group() const { return group_; }
  FlatBuffers& buffers() const { return buffers_; }
  const Plan& plan() const { return plan_; }
  bool parameters_agreed() const { return parameters_agreed_; }
  /// How the last step left the ranks; of strategies that are not periodic: with the mean.
  Meeting meeting() const { return meeting_; }
  /// Whether it left all with the same parameters.
  bool ranks_agree() const { return meeting_ == Meeting::mean || meeting_ == Meeting::outer; }
  /// (ranks,): this rank's row of the mixing matrix of the last step.
  std::vector<double> mixing_weights() const;
  const CarriedState& carried() const { return carried_; }
  /// Null: the strategy does not listen.
  UnitListener* listener() const { return listener_; }
  void set_listener(UnitListener& listener) { listener_ = &listener; }

  /// What update() and update_rest() call.
  void update_by(Optimizer& optimizer) { optimizer_ = &optimizer; }
  Optimizer& optimizer() const { return *optimizer_; }
  /// What range_ready() calls; it returns whether it updated the range.
  void on_range_ready(std::function<bool(Range)> callback) {
    on_range_ready_ = std::move(callback);
  }

  Range own(Range range) const override {
    return buffers_.slice(range, shard_group_.rank(), shard_group_.size());
  }
  at::Tensor mean(Range range) const override { return buffers_.mean(range); }
  const ParameterLayout& layout() const override { return buffers_; }
  RankGroup& group() override { return group_; }
  at::Tensor gradients(Range range) const override { return buffers_.gradients(range); }
  at::Tensor parameters(Range range) const override { return buffers_.parameters(range); }
  const at::Tensor& parameter(int index) const override { return buffers_.parameter(index); }
  void parameters_changed(Range range) override { buffers_.parameters_changed(range); }
  void broadcast_parameters() override;
  Transfer reduce_scatter_gradients(Range range, std::string_view label) override;
  Transfer gather_parameters(Range range, std::string_view label) override;
  Transfer gather_norms() override;
  Transfer broadcast_updated(int index, int owner) override;
  void update(Range range) override { optimizer_->update(range); }
  RankGroup& subgroup(const std::vector<int>& ranks) override { return group_.subgroup(ranks); }
  void update_rest() override { optimizer_->update_all(); }
  bool range_ready(Range range) override { return on_range_ready_ && on_range_ready_(range); }
  void plan_anew(std::vector<PlannedCollective> collectives) override {
    plan_.collectives = std::move(collectives);
  }
  void carries(CarriedState state) override { carried_ = std::move(state); }
  void ranks_met(Meeting meeting) override {
    if (plan_.agreement == Agreement::periodic) meeting_ = meeting;
  }
  void ranks_mixed(std::vector<double> weights) override;

 private:
  int unit_of(Range range) const;

  ProcessGroup& group_;
  ProcessGroup& shard_group_;
  FlatBuffers& buffers_;
  Plan plan_;
  CarriedState carried_;
  Optimizer* optimizer_ = nullptr;
  UnitListener* listener_ = nullptr;
  std::function<bool(Range)> on_range_ready_;
  bool parameters_agreed_ = false;
  Meeting meeting_ = Meeting::mean;
  std::vector<double> mixed_;  ///< mixing_weights() of Meeting::mixed
};

}  // namespace ddprun
