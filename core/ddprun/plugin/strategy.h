// The strategy interface: how the gradients of data-parallel ranks become their mean.
#pragma once

#include <ATen/core/Tensor.h>

#include "ddprun/comm/group/rank_group.h"
#include "ddprun/optim/parameter_layout.h"
#include "ddprun/plugin/plan.h"
#include "ddprun/plugin/plugin.h"

namespace ddprun {

/// What a strategy works with. The core owns one per rank, which outlives every call of the
/// strategy but its destructor. Training thread only, but for on_gradient()'s. There is more of it
/// in sharding.h, for ranks that own a part, and deviations.h, for steps or ranks that differ.
class StrategyContext {
 public:
  virtual const ParameterLayout& layout() const = 0;
  virtual RankGroup& group() = 0;

  /// 1-D views: the gradients as ranks exchange them, and the parameters that the optimizer
  /// updates. Of what is sharded: within one unit, and within what the rank owns.
  virtual at::Tensor gradients(Range range) const = 0;
  virtual at::Tensor parameters(Range range) const = 0;
  /// Call it after writing parameters, so that the model reads them.
  virtual void parameters_changed(Range range) = 0;
  /// Copies rank 0's parameters to all ranks, in place.
  virtual void broadcast_parameters() = 0;

  /// For update(): updates all that this rank owns and that was not updated in this step yet.
  virtual void update_rest() = 0;
  /// Says in finish_backward() that the gradients of `range` are the mean, and will not be touched
  /// again in this step. With `optimizer.overlap` their parameters are updated before it returns
  /// true, so call it while other collectives are under way; otherwise it returns false. Throws
  /// Error if it comes earlier, or twice for an element.
  virtual bool range_ready(Range range) = 0;

 protected:
  ~StrategyContext() = default;
};

/// A way of synchronizing gradients, one object a rank. All issue the same collectives in order.
class Strategy : public Plugin {
 public:
  ~Strategy() override;

  /// The plan of rank `rank` of layout.ranks(). It must depend on arguments and options alone:
  /// there is no memory yet, and it is asked for other ranks, and for numbers of ranks that never
  /// run. The default plans no collective.
  virtual Plan plan(const ParameterLayout& layout, int rank) const;
  /// Called once on the training thread, after the model is built. Must make the parameters equal
  /// on all ranks, as the default does. An override calls it first, or sets `context_` itself.
  virtual void setup(StrategyContext& context);
  /// Called when gradient `index` of this step is final on this rank, with all micro-batches
  /// accumulated (sharded gradients: those of this micro-batch). Calls come on the autograd thread
  /// (on the CPU the one that called backward), in the order in which backward completes. Must not
  /// block.
  virtual void on_gradient(int index);
  /// Called on the training thread when backward is done on this rank. On return every gradient
  /// that this rank owns is the mean over all ranks.
  virtual void finish_backward() = 0;
  /// Updates the parameters: update_rest() is the default. Strategies that own a part send it to
  /// the others. Called on the training thread. The buffer holds gradients that are not clipped:
  /// the update multiplies them by the factor of optimizer.clip_norm.
  virtual void update();

 protected:
  StrategyContext* context_ = nullptr;  ///< from setup() on
};

}  // namespace ddprun
