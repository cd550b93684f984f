// The strategy interface: how the gradients of data-parallel ranks become their mean.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ddprun/comm/process_group.h"
#include "ddprun/optim/flat_buffers.h"
#include "ddprun/optim/optimizer.h"
#include "ddprun/plugin/plugin.h"

namespace ddprun {

/// One collective that a strategy says it issues per synchronized step.
struct PlannedCollective {
  CollectiveKind kind;
  std::int64_t bytes;  ///< payload: elements x element size, as CollectiveRecord::bytes
};

/// What a strategy works with. The core owns one per rank. It outlives every call of the strategy
/// except its destructor, which must not use it.
class StrategyContext {
 public:
  StrategyContext(ProcessGroup& group, FlatBuffers& buffers) : group_(group), buffers_(buffers) {}

  ProcessGroup& group() { return group_; }
  FlatBuffers& buffers() { return buffers_; }

  /// Copies rank 0's parameters to all ranks (one broadcast of the flat buffer), in place.
  void broadcast_parameters();

  /// Declares one collective of a synchronized step. Each run compares the collectives that ran
  /// with these. Declare them in setup(). If the first steps decide (PyTorch's Reducer rebuilds its
  /// buckets), call clear_plan() then and declare them anew.
  void plan(CollectiveKind kind, std::int64_t bytes) { plan_.push_back({kind, bytes}); }
  void clear_plan() { plan_.clear(); }

  /// Declares that gradients are not averaged over ranks: a control experiment, whose parameters
  /// differ between ranks.
  void declare_unsynchronized() { synchronized_ = false; }

  /// `callback` runs on the training thread before the forward of each micro-batch whose gradients
  /// will be synchronized.
  void before_forward(std::function<void()> callback) {
    before_forward_.push_back(std::move(callback));
  }

  /// Tells the core that the gradients of `range` are the mean, and that the strategy will not
  /// touch them again in this step. With `optimizer.overlap` it updates their parameters before it
  /// returns, so call it while other collectives are under way. Without, it does nothing. Call it
  /// on the training thread, in finish_backward() or later. Throws Error if it comes earlier, or
  /// twice for an element.
  void range_ready(Range range) const {
    if (on_range_ready_) on_range_ready_(range);
  }

  /// For the core: sets what range_ready() calls.
  void on_range_ready(std::function<void(Range)> callback) {
    on_range_ready_ = std::move(callback);
  }

  /// For the core: `guard` gets each callback of before_forward(), which it calls.
  void guard_before_forward(std::function<void(const std::function<void()>&)> guard) {
    guard_before_forward_ = std::move(guard);
  }

  const std::vector<PlannedCollective>& planned() const { return plan_; }
  bool synchronized() const { return synchronized_; }
  void run_before_forward() const;

 private:
  ProcessGroup& group_;
  FlatBuffers& buffers_;
  std::vector<PlannedCollective> plan_;
  std::vector<std::function<void()>> before_forward_;
  std::function<void(const std::function<void()>&)> guard_before_forward_;
  std::function<void(Range)> on_range_ready_;
  bool synchronized_ = true;
};

/// A way of synchronizing gradients. There is one object per rank. Every rank must issue the same
/// collectives in the same order. With gradient accumulation, only the last micro-batch of a step
/// calls on_gradient() and finish_backward().
class Strategy : public Plugin {
 public:
  ~Strategy() override;

  /// Called once on the training thread, after the model is built. Must make the parameters equal
  /// on all ranks and declare the communication plan. Keep a pointer to `context` for the calls
  /// below.
  virtual void setup(StrategyContext& context) = 0;

  /// Called when gradient `index` (FlatBuffers order) of this step is final on this rank, with all
  /// micro-batches accumulated. Calls come on the autograd thread (on the CPU the one that called
  /// backward), in the order in which backward completes. Must not block.
  virtual void on_gradient(int index);

  /// Called on the training thread when backward is done on this rank. On return every gradient is
  /// the mean over all ranks.
  virtual void finish_backward() = 0;

  /// Updates the parameters that range_ready() has not. The default updates all of them. Strategies
  /// that own only a part of the buffer override it. Called on the training thread. With
  /// optimizer.clip_norm the core has taken the norm of all gradients in this rank's buffer, so
  /// every one must be the mean by then: refuse clip_norm otherwise (RunDescription). The buffer
  /// holds gradients that are not clipped; Optimizer::update() multiplies them by the factor.
  virtual void optimizer_step(Optimizer& optimizer);

  /// Returns true if finish_backward() calls range_ready(), which `optimizer.overlap` needs.
  /// Default: false. Called in the launching process too.
  virtual bool reports_ranges() const;
};

}  // namespace ddprun

/// Exports a strategy: DDPRUN_STRATEGY(MyClass, "my_name", "one line", "1.0")
#define DDPRUN_STRATEGY(Class, name, summary, version) \
  DDPRUN_PLUGIN(Class, strategy, name, summary, version)
