// The order of the calls that make up a step of data-parallel training, as a state machine: it says
// where a step stands, and refuses a call that comes out of order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "ddprun/plugin/sharding.h"

namespace ddprun {

/// Where the step under way stands.
enum class StepPhase : std::uint8_t {
  /// Micro-batches add up gradients on this rank alone. A step begins here.
  accumulating,
  /// The backward that synchronizes is running: the strategy hears of each final gradient.
  last_backward,
  /// Backward is done and the strategy finishes: parameters may be updated (optimizer.overlap).
  synchronizing,
  /// Every gradient is the mean over the ranks: the step may be completed.
  synchronized,
};

/// One step after another. Calls in this order; brackets: may be left out.
///     [begin] { start_backward end_backward } start_backward(the last) start_synchronizing
///     { may_update } end_synchronizing end_backward [complete]
/// Or end(), after begin: a captured step runs without these calls, and a step without an update
/// has no complete().
/// What is out of order throws Error. Training thread.
class StepOrder {
 public:
  /// `overlap`: optimizer.overlap, with which ranges are updated before the step is completed.
  explicit StepOrder(bool overlap) : overlap_(overlap) {}

  StepPhase phase() const { return phase_; }

  /// A step begins, at learning rate `lr`.
  void begin(double lr);
  /// A backward begins; that of the last micro-batch synchronizes. Throws Error if another one of
  /// this step did, if the one before did not come to its end, or if this micro-batch does not
  /// follow that one in the same count.
  void start_backward(MicroBatch micro_batch);
  /// The strategy finishes the backward.
  void start_synchronizing();
  /// The strategy reports a range: true if its parameters are to be updated now, false if no step
  /// was begun (a run's proof). Throws Error before start_synchronizing().
  bool may_update() const;
  /// The strategy has finished, and `updates` ranges were updated meanwhile. Throws Error if there
  /// is none and optimizer.overlap asked for some.
  void end_synchronizing(std::size_t updates);
  /// The backward has come to its end.
  void end_backward() { in_backward_ = false; }
  /// The step ends. True if begin() had been called for it. Throws Error unless gradients are
  /// synchronized, and `lr` and `clip_norm` are what updates so far were made with.
  bool complete(double lr, double clip_norm);
  /// The step that was begun ends without complete().
  void end();

 private:
  bool overlap_;
  StepPhase phase_ = StepPhase::accumulating;
  bool in_backward_ = false;                    // or an exception left it
  MicroBatch next_ = {.index = 0, .count = 0};  // of the step under way; count 0: any
  std::optional<double> lr_;                    // of begin(), for the step under way
};

}  // namespace ddprun
