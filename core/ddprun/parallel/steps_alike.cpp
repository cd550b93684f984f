// A line for each step. All ranks compare those lines that they have not compared yet.
#include "ddprun/parallel/steps_alike.h"

#include <fmt/format.h>

#include <bit>
#include <utility>

#include "ddprun/base/error.h"
#include "ddprun/parallel/first_of_all.h"

namespace ddprun {

namespace {

constexpr std::int64_t kMostUncompared = 1024;

std::string begin_of(std::int64_t step, std::int64_t micro_batches) {
  return fmt::format("step {} of {} micro-batch{}", step, micro_batches,
                     micro_batches == 1 ? "" : "es");
}

}  // namespace

bool StepsAlike::due() const {
  if (step_ >= kMostUncompared) return step_ % kMostUncompared == 0;
  return step_ == 0 || std::has_single_bit(static_cast<std::uint64_t>(step_));
}

void StepsAlike::backward_done(MicroBatch micro_batch) {
  const std::int64_t before = std::exchange(micro_batches_, micro_batch.count);
  begun_ = true;
  if (!(each_exchanges_ ? micro_batch.first() : micro_batch.last())) return;
  const std::string begun = begin_of(step_, micro_batches_);
  if (due()) return compare_with(begun);
  if (!each_exchanges_ || micro_batches_ == before) return;
  try {
    compare_with(begun);
  } catch (const CommError& others) {  // who count as before do not come
    ErrorText text = others.text();
    text.expected = fmt::format("all ranks in {}, where the step before had {}", begun, before);
    throw CommError(text);
  }
}

void StepsAlike::end(double lr, double clip_norm) {
  made(fmt::format("lr {}, clip_norm {}", lr, clip_norm));
}

void StepsAlike::drop() {
  if (begun_) made("drop_gradients()");
}

void StepsAlike::made(const std::string& end) {
  begun_ = false;
  const std::int64_t step = step_++;
  if (!compares_) return;
  steps_.push_back(begin_of(step, micro_batches_) + ", " + end);
}

void StepsAlike::compare_with(const std::string& begun) {
  if (!compares_) return;
  std::vector<std::string> steps = std::exchange(steps_, {});
  if (!begun.empty()) steps.push_back(begun);
  const auto other = first_other_line(
      group_, std::move(steps), "no step more",
      {.what = "the ranks were told different steps",
       .where = "DataParallel",
       .hint = "what decides on micro-batches, learning rates, clipping or "
               "drop_gradients() must be the same on all ranks: all-reduce a loss first"});
  if (other) throw Error(*other);
}

}  // namespace ddprun
