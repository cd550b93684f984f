// The strategy interface: how the gradients of data-parallel ranks become their mean.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "ddprun/comm/group/rank_group.h"
#include "ddprun/optim/parameter_layout.h"
#include "ddprun/plugin/plan.h"
#include "ddprun/plugin/plugin.h"

namespace ddprun {

class Slices;

/// What a strategy works with. The core owns one per rank. It outlives every call of the strategy
/// except its destructor, which must not use it. Training thread only, but for on_gradient()'s.
class StrategyContext {
 public:
  virtual const ParameterLayout& layout() const = 0;
  virtual RankGroup& group() = 0;

  /// 1-D views: the gradients as ranks exchange them, and the parameters that the optimizer
  /// updates. Of what is held by unit: within one unit, and within what the rank owns.
  virtual at::Tensor gradients(Range range) const = 0;
  virtual at::Tensor parameters(Range range) const = 0;
  /// The model's own tensor, for code that is written against modules (c10d::Reducer).
  virtual const at::Tensor& parameter(int index) const = 0;
  /// Call it after writing parameters, so that the model reads them.
  virtual void parameters_changed(Range range) = 0;

  /// Copies rank 0's parameters to all ranks, in place.
  virtual void broadcast_parameters() = 0;

  /// For strategies that own a part (sharding.h).
  virtual Slices& slices() = 0;

  /// Updates parameters that this rank owns. Call it in update() only.
  virtual void update(Range range) = 0;
  /// All that this rank owns and nobody updated yet in this step.
  virtual void update_rest() = 0;
  /// Tells the core that the gradients of `range` are the mean, and that the strategy will not
  /// touch them again in this step. With `optimizer.overlap` it updates their parameters before it
  /// returns, so call it while other collectives are under way; then it returns true. Otherwise it
  /// does nothing and returns false. Call it on the training thread, in finish_backward(). Throws
  /// Error if it comes earlier, or twice for an element.
  virtual bool range_ready(Range range) = 0;

  /// For strategies whose first steps decide what travels (PyTorch's Reducer rebuilds its buckets):
  /// the collectives of the step that begins, in place of the plan's.
  virtual void plan_anew(std::vector<PlannedCollective> collectives) = 0;

 protected:
  ~StrategyContext() = default;
};

/// A forward, or a backward.
enum class Pass : std::uint8_t { forward, backward };

/// A way of synchronizing gradients. There is one object per rank. Every rank must issue the same
/// collectives in the same order.
class Strategy : public Plugin {
 public:
  ~Strategy() override;

  /// The plan of rank `rank` of layout.ranks(). It must depend on arguments and options alone:
  /// there is no memory yet, and it is asked for other ranks than this, and for numbers of ranks
  /// that never run. The default plans no collective.
  virtual Plan plan(const ParameterLayout& layout, int rank) const;

  /// Called once on the training thread, after the model is built. Must make the parameters equal
  /// on all ranks, as the default does. An override calls the default first, or keeps a pointer to
  /// `context` itself.
  virtual void setup(StrategyContext& context);

  /// Called before the forward of each micro-batch whose gradients will be exchanged: the last of a
  /// step, and all of them with gradients held, or parameters that arrive, by unit.
  virtual void before_forward();
  /// Called before a unit is used, and when it is not needed any more, in each forward and
  /// backward. In backward, after_unit() comes when the gradients of the unit are final on this
  /// rank. `unit` is of layout().units(). May wait.
  virtual void before_unit(Pass pass, int unit);
  virtual void after_unit(Pass pass, int unit);
  /// Called when gradient `index` of this step is final on this rank, with all micro-batches
  /// accumulated (gradients held by unit: those of this micro-batch). Calls come on the autograd
  /// thread (on the CPU the one that called backward), in the order in which backward completes.
  /// Must not block.
  virtual void on_gradient(int index);
  /// Called on the training thread when backward is done on this rank. On return every gradient
  /// that this rank owns is the mean over all ranks.
  virtual void finish_backward() = 0;

  /// Updates the parameters: context().update_rest() is the default. Strategies that own a part of
  /// the buffers send it to the others. Called on the training thread. With optimizer.clip_norm the
  /// core knows the norm by now. The buffer holds gradients that are not clipped; update()
  /// multiplies them by the factor.
  virtual void update();

  /// The tensors that one step leaves for the next, parameters and moments aside. The backwards of
  /// the proof are no steps: it puts back what was in them. Default: none.
  virtual std::vector<at::Tensor> state();
  /// With Agreement::lossy: (elements,), laid out as the gradients. What this rank has not sent yet
  /// of its gradients, and adds to the next; undefined: it keeps nothing. Default: undefined.
  virtual at::Tensor kept_back() const;
  /// With Agreement::periodic: whether parameters are equal on all ranks now. Default: true.
  virtual bool ranks_agree() const;

  /// Returns true if finish_backward() calls range_ready(), which `optimizer.overlap` needs.
  /// Default: false. Called in the launching process too.
  virtual bool reports_ranges() const;

 protected:
  StrategyContext* context_ = nullptr;  ///< from setup() on
};

}  // namespace ddprun
