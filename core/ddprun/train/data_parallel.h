// Data parallelism for any model: flat buffers, gradient hooks, a strategy, an optimizer. The step
// loop, and a user's own, call it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/device/device.h"
#include "ddprun/plugin/precision.h"
#include "ddprun/plugin/strategy.h"

namespace torch::autograd {
struct Node;
}

namespace ddprun {

/// When the phases of one micro-batch's backward ended: marks of the group's device, whose
/// time_of() gives the times once the step is over.
struct BackwardMarks {
  Mark begin = 0;
  Mark last_gradient = 0;  ///< the last gradient was final: end of `backward`
  Mark synchronized = 0;   ///< every gradient is the mean: end of `exposed communication`
  /// Between these two, begin and end of each update (optimizer.overlap).
  std::vector<std::pair<Mark, Mark>> updates = {};
};

/// What became of a step. The calls wait for the device.
struct StepOutcome {
  bool skipped() const;  ///< gradients overflowed: parameters are as before
  /// Before clipping, if that was asked for and the step was not skipped.
  std::optional<double> gradient_norm() const;

  at::Tensor overflow = {};  ///< as GradientScale::overflow
  at::Tensor norm = {};      ///< float64 scalar (), or undefined
};

/// `optimizer.overlap` asks the strategy to report ranges, and the precision to leave gradients as
/// they are; throws ConfigError if they do not. `where`: of the option.
void check_overlap(const Strategy& strategy, const Precision& precision, const std::string& where);

/// One rank's share of data-parallel training. Training thread only. `group`, `strategy` and
/// `precision` outlive it. After an exception it is not used again: collectives may be under way.
///     DataParallel ddp(model->named_parameters(), group, *strategy, *precision, optimizer_config);
///     ddp.before_forward(true); loss = ...; ddp.backward(loss, true); ddp.step(lr, clip_norm);
/// With optimizer.overlap, and where the step is to be captured, ddp.begin_step(lr) stands before
/// that backward.
class DataParallel {
 public:
  /// Moves the parameters into flat buffers, runs strategy.setup(), and sets hooks. `parameters` in
  /// registration order. Throws ConfigError, as check_overlap() does too.
  DataParallel(const std::vector<NamedTensor>& parameters, ProcessGroup& group, Strategy& strategy,
               Precision& precision, const OptimizerConfig& optimizer);
  ~DataParallel();

  FlatBuffers& buffers() { return buffers_; }
  const StrategyContext& context() const { return context_; }
  Optimizer& optimizer() { return *optimizer_; }

  /// Before a micro-batch's forward. `last`: its backward will synchronize.
  void before_forward(bool last);
  /// loss.backward() with hooks; if `last`, returns when every gradient is the mean over the ranks.
  /// The caller has divided the loss by the number of micro-batches. Throws Error if a parameter
  /// got no gradient.
  BackwardMarks backward(const at::Tensor& loss, bool last);
  /// The learning rate of the step, given before the backward that synchronizes. With
  /// optimizer.overlap that backward then updates each range that the strategy reports, and throws
  /// Error if none is. Never captured: a captured step takes the rate of the last call.
  void begin_step(double lr);
  /// Clips to `clip_norm` (0: no clipping), updates the parameters (what backward has not updated),
  /// unsets the gradients. Waits for no GPU. Throws Error if `lr` is not what begin_step() was
  /// given, if that was called at all; with optimizer.overlap it must have been, and `clip_norm` be
  /// 0.
  StepOutcome step(double lr, double clip_norm);
  /// The collectives of a synchronized step: the strategy's, and what the precision needs.
  std::vector<PlannedCollective> planned() const;

 private:
  class Hook;
  void on_accumulated(int index);
  void on_range_ready(Range range);
  void finish_backward();
  void check_begun(double lr, double clip_norm) const;
  GradientScale agreed_scale();

  FlatBuffers buffers_;
  StrategyContext context_;
  Strategy& strategy_;
  Precision& precision_;
  std::unique_ptr<Optimizer> optimizer_;
  bool last_micro_batch_ = false;
  BackwardMarks marks_;  // of the backward under way
  int gradients_seen_ = 0;
  const bool overlap_;
  std::optional<double> begun_lr_;  // begin_step() was called for the step under way
  bool backward_done_ = false;      // of it: parameters may change
  int early_updates_ = 0;
  /// The end of each parameter in the autograd graph, and the hook there. Autograd keeps no
  /// reference of its own to these nodes.
  std::vector<std::pair<std::shared_ptr<torch::autograd::Node>, std::uintptr_t>> hooks_;
};

}  // namespace ddprun
