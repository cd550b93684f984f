// What each call of a step changes, and which calls are refused.
#include "ddprun/parallel/step_order.h"

#include <fmt/format.h>

#include "ddprun/base/error.h"

namespace ddprun {

namespace {

constexpr const char* kBackwardCall = "DataParallel::backward()";
constexpr const char* kStep = "DataParallel::step()";
constexpr const char* kStrategyHint = "the strategy is at fault: see docs/writing_a_plugin.md";
constexpr const char* kLoopHint =
    "a training loop of your own: begin_step(lr), forward(), backward(), step(lr, clip_norm)";

}  // namespace

void StepOrder::begin(double lr) {
  phase_ = StepPhase::accumulating;
  lr_ = lr;
}

void StepOrder::start_backward(MicroBatch micro_batch) {
  if (in_backward_) {
    throw Error({.what = "training went on after an exception",
                 .where = kBackwardCall,
                 .got = "a backward after one that did not come to its end",
                 .expected =
                     "a program that ends then: collectives may be under way, and gradients "
                     "half summed",
                 .hint = "find in forward() what may be wrong with a batch, on all ranks alike"});
  }
  if (phase_ == StepPhase::synchronized) {
    throw Error({.what = "a backward came after the one that synchronizes",
                 .where = kBackwardCall,
                 .got = "gradients that are means already, and would be added to",
                 .expected = "step() or drop_gradients() before",
                 .hint = "of several micro-batches all but the last accumulate: "
                         "forward(loss, {index, count})"});
  }
  const auto [index, count] = micro_batch;
  if (index != next_.index || (index > 0 && count != next_.count)) {
    throw Error({.what = "the micro-batches of a step are not counted in order",
                 .where = kBackwardCall,
                 .got = fmt::format("micro-batch {} of {}", index, count),
                 .expected = index != next_.index
                                 ? fmt::format("micro-batch {} of the step", next_.index)
                                 : fmt::format("of {}, as those before", next_.count),
                 .hint = "each backward adds its loss divided by the count: forward(loss, {index, "
                         "count}) with indices from 0 and one count in a step"});
  }
  next_ = {index + 1, count};
  phase_ = micro_batch.last() ? StepPhase::last_backward : StepPhase::accumulating;
  in_backward_ = true;
}

void StepOrder::start_synchronizing() { phase_ = StepPhase::synchronizing; }

bool StepOrder::may_update() const {
  if (!lr_ || phase_ == StepPhase::accumulating) return false;  // or in an earlier micro-batch
  if (phase_ == StepPhase::synchronizing || phase_ == StepPhase::synchronized) return true;
  throw Error({.what = "the strategy reported a range before backward was done",
               .where = "StrategyContext::range_ready()",
               .got = "a call during backward, which still reads parameters",
               .expected = "calls from finish_backward() on",
               .hint = kStrategyHint});
}

void StepOrder::end_synchronizing(std::size_t updates) {
  if (overlap_ && lr_ && updates == 0) {
    throw Error({.what = "the strategy reported no range, so optimizer.overlap had no effect",
                 .where = "Strategy::finish_backward()",
                 .got = "no call of range_ready()",
                 .expected = "range_ready() within it, as reports_ranges() says",
                 .hint = kStrategyHint});
  }
  phase_ = StepPhase::synchronized;
}

bool StepOrder::complete(double lr, double clip_norm) {
  const bool begun = lr_.has_value();
  const bool synchronized = phase_ == StepPhase::synchronized;
  if (!begun && !overlap_ && !synchronized) {
    throw Error({.what = "step() came without a backward that synchronizes",
                 .where = kStep,
                 .got = "gradients that are no mean",
                 .expected = "the backward of a step's last micro-batch before",
                 .hint = kLoopHint});
  }
  // With overlap parts of the parameters are updated by now, at the rate of begin() and from
  // gradients that were not clipped.
  const bool as_begun = begun ? *lr_ == lr && !(overlap_ && clip_norm > 0.0) : !overlap_;
  if (!synchronized || !as_begun) {
    throw Error({.what = "step() can only complete what begin_step() began",
                 .where = kStep,
                 .got = fmt::format("lr {} and clip_norm {}", lr, clip_norm),
                 .expected = begun && synchronized
                                 ? fmt::format("lr {}{}", *lr_, overlap_ ? " and clip_norm 0" : "")
                                 : "begin_step() before the backward that synchronizes",
                 .hint = kLoopHint});
  }
  end();
  return begun;
}

void StepOrder::end() {
  phase_ = StepPhase::accumulating;
  lr_.reset();
  next_ = {.index = 0, .count = 0};
}

}  // namespace ddprun
