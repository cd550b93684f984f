// One call of attention and its backward on fixed inputs.
//
// Family: attention_trial.cpp measure_attention.cpp
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "ddprun/comm/group/process_group.h"
#include "ddprun/config/repeat_config.h"
#include "ddprun/device/device.h"
#include "ddprun/experiments/attention/attention_config.h"
#include "ddprun/plugin/attention.h"
#include "ddprun/result/rank_result.h"

namespace ddprun {

/// What a call is given: standard normal, the same in each process. q and dout (the gradient of
/// the output) are (batch, heads, queries, head_dim), k and v (batch, heads, keys, head_dim), all
/// contiguous.
struct TrialInputs {
  at::Tensor q, k, v, dout;
};
TrialInputs make_inputs(const AttentionConfig& config, c10::Device device);

/// What comes out of it. The gradients are undefined if backward did not run.
struct TrialResults {
  at::Tensor out, dq, dk, dv;
};

/// When a call began, when its output was there, and when it was over.
struct TrialMarks {
  Mark begin = 0, forward_end = 0, end = 0;
};

/// Use it on one thread. `attention` and `device` outlive it.
class AttentionTrial {
 public:
  AttentionTrial(const AttentionConfig& config, Attention& attention, Device& device);

  /// Calls attention, and runs backward if the configuration says so. `between` is called between
  /// them. What the attention throws names it (called.h).
  TrialResults run(TrialMarks& marks, const std::function<void()>& between = {});
  const TrialInputs& inputs() const { return inputs_; }

 private:
  AttentionConfig config_;
  Attention& attention_;
  Device& device_;
  TrialInputs inputs_;
};

/// Adds to `result` the checks "output", "dq", "dk" and "dv" and, if they passed, this rank's
/// samples (of kind attention) and the phases of the last one. `on_sample` is called after each
/// sample.
void measure_attention(const AttentionConfig& config, const RepeatConfig& repeat,
                       Attention& attention, ProcessGroup& group,
                       const std::function<void(const Sample&)>& on_sample, RankResult& result);

}  // namespace ddprun
