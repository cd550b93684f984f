// The measured calls of one attention at one size.
#pragma once

#include <functional>

#include "ddprun/comm/group/process_group.h"
#include "ddprun/config/repeat_config.h"
#include "ddprun/plugin/attention.h"
#include "ddprun/proof/attention/attention_config.h"
#include "ddprun/result/rank_result.h"

namespace ddprun {

/// Adds to `result` the checks "output", "dq", "dk" and "dv" and, if they passed, this rank's
/// samples (of kind attention) and the phases of the last one. `on_sample` is called after each
/// sample.
void measure_attention(const AttentionConfig& config, const RepeatConfig& repeat,
                       Attention& attention, ProcessGroup& group,
                       const std::function<void(const Sample&)>& on_sample, RankResult& result);

}  // namespace ddprun
