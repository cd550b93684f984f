// Parameters that are not trained: whole on each rank or, where the strategy shards what is
// trained, in slices that are gathered to be used.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <vector>

#include "ddprun/comm/group/process_group.h"
#include "ddprun/optim/flat_buffers.h"
#include "ddprun/optim/parameter_roles.h"
#include "ddprun/parallel/buffer_context.h"
#include "ddprun/plugin/parts/unit_exchanges.h"
#include "ddprun/plugin/plan.h"

namespace ddprun {

/// The strategy knows nothing of them: they have no gradient and never change. What is written to
/// one in slices is lost. Training thread, or autograd's in backward.
class FrozenParameters {
 public:
  /// All ranks have them as rank 0 has. In slices if what is `trained` is sharded, units share
  /// their memory, and slices with room for two units are less than all; but whole if two units use
  /// one of them. `shard_group`: the ranks that hold everything together, and this one among them.
  FrozenParameters(const ParameterRoles& roles, const FlatBuffers& trained, KernelSet kernels,
                   ProcessGroup& group, ProcessGroup& shard_group);

  const FlatBuffers& buffers() const { return buffers_; }
  bool in_slices() const { return gathered_.has_value(); }

  /// For each forward that trains, before its first unit.
  void before_forward();
  /// Nothing is gathered any more.
  void forget();
  /// Before unit `models_unit` of the model is used: gathers what is frozen of it, and begins with
  /// the next. May wait.
  void before_unit(Pass pass, int models_unit);
  /// What these issue. Units behind the first that is trained are taken to have a backward.
  std::vector<PlannedCollective> planned() const;

  /// The values of a unit, (unit.range.size(),), in the dtype in which they are kept. All ranks
  /// call it.
  at::Tensor whole(const Unit& unit) const;
  /// Calls `look` for each unit while the model may read it. All ranks call it.
  void for_each_unit(const std::function<void(const Unit&)>& look);

 private:
  FrozenParameters(const ParameterRoles& roles, const ParameterLayout& layout,
                   const BufferHolding& trained, ProcessGroup& group, ProcessGroup& shard_group);

  ProcessGroup& shard_group_;
  FlatBuffers buffers_;
  BufferContext context_;
  std::vector<int> units_;                  // by the model's unit: ours, or -1
  int first_in_backward_ = 0;               // backward ends with this unit
  std::optional<UnitParameters> gathered_;  // empty: whole
};

}  // namespace ddprun
