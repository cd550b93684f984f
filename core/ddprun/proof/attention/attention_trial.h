// One call of attention and its backward on drawn inputs.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "ddprun/device/device.h"
#include "ddprun/plugin/attention.h"
#include "ddprun/proof/attention/attention_config.h"

namespace ddprun {

/// How the inputs lie: contiguous, or the heads of a token side by side, as a model has them.
enum class TrialLayout { contiguous, by_token };

/// What a call is given: standard normal within 3, the same in each process for equal seeds. q and
/// dout (the gradient of the output) are (batch, heads, queries, head_dim), k and v (batch, heads,
/// keys, head_dim).
struct TrialInputs {
  at::Tensor q, k, v, dout;
  at::Tensor first_keys = {};  ///< as AttentionOptions has it
};

/// What comes out of it. The gradients are undefined if backward did not run.
struct TrialResults {
  at::Tensor out, dq, dk, dv;
  at::Tensor alone = {};  ///< the output without gradients, if that was asked for
};

/// When a call began, when its output was there, and when it was over.
struct TrialMarks {
  Mark begin = 0, forward_end = 0, end = 0;
};

/// Use it on one thread. `attention` and `device` outlive it.
class AttentionTrial {
 public:
  static constexpr std::uint64_t kSeed = 12;  ///< of the inputs of each measured call

  /// `first_keys`: as AttentionOptions has it.
  AttentionTrial(const AttentionConfig& config, Attention& attention, Device& device,
                 std::uint64_t seed = kSeed, TrialLayout layout = TrialLayout::contiguous,
                 const at::Tensor& first_keys = {});

  /// Calls attention, and runs backward if the configuration says so. `between` is called between
  /// them. What the attention throws names it (called.h).
  TrialResults run(TrialMarks& marks, const std::function<void()>& between = {});
  /// Calls it with other queries, as the next layer would before backward begins.
  void call_next_layer();
  /// The output of a call without gradients, as an evaluation makes it.
  at::Tensor output_alone();
  const TrialInputs& inputs() const { return inputs_; }
  /// Multiplies the queries, and so the scores.
  void scale_queries(double factor) { inputs_.q.mul_(factor); }

 private:
  AttentionOptions options() const;

  AttentionConfig config_;
  Attention& attention_;
  Device& device_;
  TrialInputs inputs_;
};

}  // namespace ddprun
