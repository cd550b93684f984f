// The core's side of a strategy's context: the flat buffers, the group and the optimizer behind it.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "ddprun/comm/group/process_group.h"
#include "ddprun/optim/flat_buffers.h"
#include "ddprun/optim/optimizer.h"
#include "ddprun/plugin/sharding.h"

namespace ddprun {

/// `group`, `sharers` and `buffers` outlive it.
class BufferContext final : public StrategyContext, public Slices {
 public:
  /// `sharers`: the ranks that own every element once, and this one among them.
  BufferContext(ProcessGroup& group, ProcessGroup& sharers, FlatBuffers& buffers, Plan plan)
      : group_(group), sharers_(sharers), buffers_(buffers), plan_(std::move(plan)) {}

  ProcessGroup& process_group() const { return group_; }
  FlatBuffers& buffers() const { return buffers_; }
  const std::vector<PlannedCollective>& planned() const { return plan_.collectives; }
  Agreement agreement() const { return plan_.agreement; }
  bool parameters_agreed() const { return parameters_agreed_; }

  /// What update() and update_rest() call.
  void update_by(Optimizer& optimizer) { optimizer_ = &optimizer; }
  Optimizer& optimizer() const { return *optimizer_; }
  /// What range_ready() calls; it returns whether it updated the range.
  void on_range_ready(std::function<bool(Range)> callback) {
    on_range_ready_ = std::move(callback);
  }

  /// Tells whether the backward that begins is the step's last.
  void last_micro_batch(bool last) { last_micro_batch_ = last; }

  Slices& slices() override { return *this; }
  bool last_micro_batch() const override { return last_micro_batch_; }
  Range own(Range range) const override {
    return buffers_.slice(range, sharers_.rank(), sharers_.size());
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
  void update_rest() override { optimizer_->update_all(); }
  bool range_ready(Range range) override { return on_range_ready_ && on_range_ready_(range); }
  void plan_anew(std::vector<PlannedCollective> collectives) override {
    plan_.collectives = std::move(collectives);
  }

 private:
  int unit_of(Range range) const;
  /// Where the model reads the parameters of `range`, with this rank's slice in it.
  at::Tensor place_to_gather(Range range) const;
  /// Renews the copy of what is read from both (ParameterReads::both()); empty: of nothing.
  std::function<void()> renewed(Range range) const;
  /// Sends what is read in float32 although there is a copy.
  Transfer gather_float32(Range range, std::vector<Work> works, std::string_view label);

  ProcessGroup& group_;
  ProcessGroup& sharers_;
  FlatBuffers& buffers_;
  Plan plan_;
  Optimizer* optimizer_ = nullptr;
  std::function<bool(Range)> on_range_ready_;
  bool parameters_agreed_ = false;
  bool last_micro_batch_ = true;
};

}  // namespace ddprun
