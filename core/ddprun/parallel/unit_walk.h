// Where forward and backward stand among the model's units, and who hears of it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "ddprun/device/device.h"
#include "ddprun/optim/parameter_roles.h"
#include "ddprun/parallel/buffer_context.h"
#include "ddprun/parallel/frozen_parameters.h"
#include "ddprun/parallel/gradient_arrivals.h"
#include "ddprun/parallel/unit_reads.h"
#include "ddprun/plugin/sharding.h"

namespace ddprun {

/// When one of the model's units was computed, in forward or in backward.
struct UnitMarks {
  int unit = 0;
  Mark begin = 0, end = 0;
};

/// The model computes its units in order, in each forward. What listens hears of those that have
/// something to train; frozen parameters in slices are gathered for all. Training thread, and in
/// backward autograd's.
class UnitWalk {
 public:
  /// All outlive it. `frozen` null: all is trained. `strategy`: in the context's plan, for
  /// messages. `before_read`: called when a forward is about to read what is trained of a unit,
  /// but not again for backward.
  UnitWalk(const ParameterRoles& roles, BufferContext& context, FrozenParameters* frozen,
           const Plugin& strategy, const GradientArrivals& arrivals,
           std::function<void(int unit)> before_read)
      : roles_(roles),
        context_(context),
        frozen_(frozen),
        strategy_(strategy),
        arrivals_(arrivals),
        before_read_(std::move(before_read)),
        reads_(context.buffers()) {}

  /// After the strategy's setup(): throws Error if it needs to hear of units and does not listen.
  void check_listener() const;
  /// Before a forward that trains.
  void before_forward(MicroBatch micro_batch);
  /// After a replay of a step: what had been gathered before it is old, and its place another's.
  void step_replayed();
  /// Runs `loss`, one forward of the whole model. Throws Error if the strategy needs units
  /// and the model names none, and for what UnitReads::check() refuses.
  at::Tensor forward(const std::function<at::Tensor()>& loss);
  /// DataParallel::unit().
  at::Tensor unit(int models_unit, const std::function<at::Tensor()>& forward);
  /// Runs `part`, whose units backward computes again.
  at::Tensor again(const std::function<at::Tensor()>& part);
  /// Around a backward. Within it a unit is left when its gradients have come and the unit before
  /// it is entered.
  void begin_backward();
  void end_backward();
  /// Before gradient `index` is moved to its place: throws Error if one that was not sent yet may
  /// lie there.
  void check_place(int index) const;
  /// The units of the last forward and of its backward, in the order of time; on the CPU alone.
  std::vector<UnitMarks> take_marks() { return std::exchange(marks_, {}); }

  /// Whether some unit is sharded, so that something waits for each of them.
  bool sharded() const;

 private:
  /// Whether the strategy must hear of each unit.
  bool needs_units() const { return sharded() || context_.buffers().gathers(); }
  [[noreturn]] void refuse_missing_units() const;
  [[noreturn]] void refuse_order(int models_unit) const;
  void tell_listener(MicroBatch micro_batch);
  void check_alone(int models_unit) const;
  void skip_frozen(std::ptrdiff_t models_unit);
  void before(Pass pass, int models_unit);
  void after(Pass pass, int unit);
  void enter_backward(int models_unit);
  void leave_down_to(int unit);
  /// Whether units are gathered into places that others take next.
  bool share_places() const;
  void check_derivatives() const;
  void mark_begin(int models_unit);
  void mark_end();

  const ParameterRoles& roles_;
  BufferContext& context_;
  FrozenParameters* frozen_;
  const Plugin& strategy_;
  const GradientArrivals& arrivals_;
  std::function<void(int unit)> before_read_;
  UnitReads reads_;
  int next_ = 0;          // of the forward under way, as the model counts
  int open_ = -1;         // that is computed; -1: none
  bool entered_ = false;  // the backward under way has come to a unit
  int to_leave_ = 0;      // of the backward under way: those that nobody heard the end of
  bool again_ = false;    // backward computes units again
  std::vector<UnitMarks> marks_ = {};  // the last one has no end yet while it runs
};

}  // namespace ddprun
