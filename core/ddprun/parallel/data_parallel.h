// Data parallelism for any model: flat buffers, gradient hooks, a strategy, an optimizer. ddprun's
// step loop calls it, and so can a training loop of your own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/device/device.h"
#include "ddprun/optim/parameter_roles.h"
#include "ddprun/optim/step_extent.h"
#include "ddprun/parallel/absent_values.h"
#include "ddprun/parallel/buffer_context.h"
#include "ddprun/parallel/frozen_parameters.h"
#include "ddprun/parallel/gradient_arrivals.h"
#include "ddprun/parallel/loss.h"
#include "ddprun/parallel/parameter_watch.h"
#include "ddprun/parallel/preparation.h"
#include "ddprun/parallel/step_order.h"
#include "ddprun/parallel/steps_alike.h"
#include "ddprun/parallel/unit_walk.h"
#include "ddprun/plugin/precision.h"
#include "ddprun/plugin/strategy.h"

namespace ddprun {

/// The marks of one micro-batch's backward, in the order of time. They are marks of the group's
/// device: its time_of() turns them into times once the step is over.
struct BackwardMarks {
  Mark begin = 0;
  /// The last gradient was final: `backward` ends, exposed communication begins.
  Mark last_gradient = 0;
  /// Every gradient is the mean: exposed communication ends.
  Mark synchronized = 0;
  /// The updates between the last two marks, begin and end of each (optimizer.overlap).
  std::vector<std::pair<Mark, Mark>> updates = {};
  /// On the CPU, where a mark is no more than a clock read: when each gradient was final, and the
  /// units of the forward before and of this backward, if the model names them.
  std::vector<Mark> gradients = {};
  std::vector<UnitMarks> units = {};
};

/// How a step ended. Both calls wait for the device.
struct StepOutcome {
  /// True if gradients overflowed: the parameters are then as before the step.
  bool skipped() const;
  /// The norm before clipping; empty if nothing was clipped or the step was skipped.
  std::optional<double> gradient_norm() const;

  at::Tensor overflow = {};  ///< as GradientScale::overflow
  at::Tensor norm = {};      ///< float64 scalar (), or undefined
};

/// The parameters of a torch::nn::Module, in registration order.
template <class Module>
std::vector<NamedTensor> named_parameters(const Module& module) {
  std::vector<NamedTensor> parameters;
  for (const auto& entry : module.named_parameters()) {
    parameters.push_back({entry.key(), entry.value()});
  }
  return parameters;
}

/// Checks what `optimizer.overlap` needs: a plan that reports ranges, and a precision that does not
/// scale the loss. Throws ConfigError otherwise. `where`: the option's place in the file.
void check_overlap(const Plan& plan, Precision& precision, const std::string& where);

/// One rank's share of data-parallel training. Training thread only. `group`, `strategy` and
/// `precision` outlive it. After an exception it must not be used again, because collectives may
/// still be under way.
///     DataParallel ddp(named_parameters(*model), group, *strategy, *precision, optimizer_config);
///     const Loss loss = ddp.forward([&] { return mse_loss(model->forward(x), y); });
///     ddp.backward(loss);
///     ddp.step(lr, clip_norm);
/// A model calls linear() for its linear layers, which some precisions compute themselves. Two
/// cases need begin_step(lr) before the backward that synchronizes: optimizer.overlap, and a step
/// that is to be captured. StepOrder refuses calls that come out of order.
class DataParallel {
 public:
  /// Asks precision and strategy whether they can take part in `run` (unsupported()), lets the
  /// precision convert the parameters, moves them into flat buffers as the strategy's plan says,
  /// calls strategy.setup(), and sets the hooks. `run`: what is known of it; what the group, the
  /// precision and `optimizer` know is filled in. Its kernels compute the model, and its execution
  /// says that steps will be captured. `parameters` are in
  /// registration order, all of the model's: one that requires no gradient is frozen, as rank 0
  /// has it (FrozenParameters); a tensor that comes twice is a tied weight. `extent`: how far steps
  /// go. With `forward` there is evaluate() alone: no buffers of gradients, and the strategy is
  /// never called, as it has nothing to exchange.
  /// Throws ConfigError, for a refusal and as FlatBuffers and check_overlap() do, and Error if the
  /// plans of the ranks do not own every element.
  DataParallel(const std::vector<NamedTensor>& parameters, ProcessGroup& group, Strategy& strategy,
               Precision& precision, const OptimizerConfig& optimizer,
               const RunDescription& run = {}, StepExtent extent = StepExtent::step);
  ~DataParallel();

  /// What is trained.
  FlatBuffers& buffers() { return buffers_; }
  const FlatBuffers& buffers() const { return buffers_; }
  /// What is not. Null: all is trained.
  FrozenParameters* frozen() const { return frozen_.get(); }
  /// Which parameters and units of the model are where.
  const ParameterRoles& roles() const { return roles_; }
  /// How fused kernels read each parameter and where they write its gradient, in registration
  /// order. Throws ConfigError as FlatBuffers::slots().
  std::vector<ParameterSlot> slots() const;
  const BufferContext& context() const { return context_; }
  /// Says that each rank has parameters of its own, as a periodic strategy leaves them.
  void ranks_differ() { context_.ranks_met(Meeting::none); }
  Strategy& strategy() { return strategy_; }
  Precision& precision() { return precision_; }
  Optimizer& optimizer() { return *optimizer_; }

  /// Calls `loss`, which runs the model and returns the mean loss of a micro-batch, a scalar, with
  /// the precision switched on. Throws Error if the precision computes linear layers itself and
  /// `loss` did not call linear(), if dtypes do not fit the parameters', if the result is no scalar
  /// or has no gradient, and for what ParameterWatch::check() refuses.
  Loss forward(const std::function<at::Tensor()>& loss, MicroBatch micro_batch = {});
  /// The same without gradients, for evaluation: returns what `loss` returned.
  at::Tensor evaluate(const std::function<at::Tensor()>& loss);
  /// For parts of a model that backward computes again: calls `part` with the precision switched
  /// on, as forward() does. Its time is backward's. Call it from a node's backward.
  at::Tensor forward_again(const std::function<at::Tensor()>& part);
  /// x (..., in), weight (out, in): x weight^T (..., out) as the precision computes it. Call it
  /// within forward(), forward_again() or evaluate().
  at::Tensor linear(const at::Tensor& x, const at::Tensor& weight);
  /// Runs `forward`, which uses the parameters of unit `unit` and of no other, and tells the
  /// strategy before and after, in forward and in backward. `forward` returns what the next unit
  /// reads. Units come in order, and again within forward_again(). Models whose strategy shards
  /// parameters or gradients, or gathers parameters in forward, call it for each, within forward()
  /// or evaluate(); with a single unit they need not.
  at::Tensor unit(int unit, const std::function<at::Tensor()>& forward);
  /// The dtype of the model's own tensors while it trains. Inputs in floating point need it too:
  /// x.to(ddp.parameter_dtype()).
  at::ScalarType parameter_dtype() const { return buffers_.dtypes().model; }

  /// The backward of the loss, divided by the number of micro-batches and scaled as the precision
  /// wants it. After the last micro-batch it returns when every gradient is the mean over the ranks
  /// (still scaled; step() scales it back). Throws Error for what GradientArrivals, StepOrder and
  /// StepsAlike refuse; with optimizer.overlap also if the strategy reported no range.
  BackwardMarks backward(const Loss& loss);
  /// Tells the learning rate of a step before the backward that synchronizes. With
  /// optimizer.overlap, that backward then updates each range that the strategy reports. This call
  /// is never captured: a replayed step takes the rate of the latest call.
  void begin_step(double lr);
  /// Clips to `clip_norm` (0: no clipping), updates the parameters that backward has not updated,
  /// and unsets the gradients. Does not wait for a GPU. Throws Error if no backward synchronized;
  /// if begin_step() was called with another `lr`; with optimizer.overlap also if it was not
  /// called, or if `clip_norm` is not 0; for what ParameterWatch::check_end() refuses; ConfigError
  /// if the strategy refuses to clip.
  StepOutcome step(double lr, double clip_norm);
  /// Ends a step without an update: unsets the gradients.
  void drop_gradients();
  /// What all ranks were told of their steps, for comparisons that are asked for.
  StepsAlike& steps_alike() { return alike_; }
  /// Says that a replay of captured work did the step that begin_step() began. A later backward
  /// without begin_step() then updates nothing.
  void step_replayed();
  /// The planned collectives of a step of `micro_batches`: the strategy's, the precision's, those
  /// of frozen parameters, and those of the norm that clipping needs where ranks own parts.
  std::vector<PlannedCollective> planned(std::int64_t micro_batches = 1) const;
  StepExtent extent() const { return extent_; }
  /// What rank `rank` updates.
  std::vector<Range> owned_by(int rank) const;

  /// For checks that make gradients of their own, in which the precision has no part: the calls
  /// before a forward, and the backward of `loss` as it is.
  void before_forward(MicroBatch micro_batch) { walk_.before_forward(micro_batch); }
  BackwardMarks backward_as_is(const at::Tensor& loss, MicroBatch micro_batch);
  /// For checks that put other gradients in the place of those that backward() left.
  void gradients_set() { watched_.backward_done(); }
  /// What watch_gradients() tells of.
  enum class Watched {
    final,    ///< a gradient of this rank is what buffers() will exchange
    partial,  ///< it has this micro-batch, and waits for others
    begin,    ///< a backward begins; of no gradient
    unit,     ///< a forward is about to read what is trained of a unit, which `index` names
  };
  /// For checks: `watch` is called before the strategy hears of a gradient. Empty: nobody watches.
  /// `alone`: the strategy hears of none, and they stay this rank's own, unless they are sharded.
  void watch_gradients(std::function<void(Watched what, int index)> watch, bool alone = false) {
    watch_ = std::move(watch);
    alone_ = alone;
  }

 private:
  class Hook;
  DataParallel(Preparation preparation, ProcessGroup& group, Strategy& strategy,
               Precision& precision, StepExtent extent);
  void set_hooks();
  void on_accumulated(int index);
  bool on_range_ready(Range range);
  bool sharded() const { return buffers_.holding().gradients == Placement::sharded; }
  /// Whether the gradients of this micro-batch travel.
  bool exchanges(bool last) const { return (last && !alone_) || sharded(); }
  at::Tensor under_precision(const std::function<at::Tensor()>& loss);
  void finish_backward(bool last);
  void ask_to_clip(double clip_norm);
  GradientScale agreed_scale();
  at::Tensor agreed_norm();

  StepExtent extent_;
  RunDescription run_;
  Strategy& strategy_;
  ParameterRoles roles_;
  ProcessGroup& shard_group_;  // of a whole set of slices
  FlatBuffers buffers_;
  std::unique_ptr<FrozenParameters> frozen_;  // null: all is trained
  BufferContext context_;
  Precision& precision_;
  Precision::Linear linear_;  // empty: at::linear
  bool linear_called_ = false;
  std::unique_ptr<Optimizer> optimizer_;
  StepOrder order_;
  GradientArrivals arrivals_{buffers_};
  UnitWalk walk_;
  StepsAlike alike_;
  BackwardMarks marks_;  // of the backward under way
  bool marks_details_;   // BackwardMarks::gradients and units
  ParameterWatch watched_;
  AbsentValues absent_{buffers_};
  std::function<void(Watched what, int index)> watch_ = {};
  bool alone_ = false;  // watch_gradients()
  /// Each takes our hook off a parameter's node in the autograd graph, and keeps that node alive,
  /// as autograd itself does not.
  std::vector<std::function<void()>> remove_hooks_;
};

}  // namespace ddprun
