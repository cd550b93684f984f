// Rank 0's clock decides for all.
#include "ddprun/rank/repetition.h"

#include <ATen/ops/full.h>

#include "ddprun/base/clock.h"
#include "ddprun/device/device.h"

namespace ddprun {

bool Repetition::goes_on(std::int64_t samples) {
  const std::int64_t measured = samples - config_.warmup;
  if (measured <= 0) begin_ns_ = now_ns();
  if (measured < RepeatConfig::kLeast) return true;
  if (measured >= config_.count) return false;
  const double elapsed_s = seconds_since(begin_ns_);
  const at::Tensor answer =
      at::full({1}, elapsed_s < config_.seconds ? 1.0 : 0.0,
               at::TensorOptions(group_.device().torch_device()).dtype(at::kFloat));
  group_.broadcast(answer, 0, "goes on", Await::next).wait();
  return answer.item<float>() != 0;
}

}  // namespace ddprun
