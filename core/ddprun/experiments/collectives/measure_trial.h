// Measures a trial until its repetitions end, and checks its data before and after.
#pragma once

#include <cstdint>
#include <functional>

#include "ddprun/config/repeat_config.h"
#include "ddprun/experiments/collectives/collective_trial.h"
#include "ddprun/result/rank_result.h"

namespace ddprun {

/// Adds to `result` this rank's samples (of kind collectives), the checks "data_before_timing" and
/// "data_after_timing", and the timeline of the last sample. All ranks call it alike; rank 0's
/// clock ends it. `on_sample` is called after each sample.
void measure_trial(CollectiveTrial& trial, ProcessGroup& group, const RepeatConfig& repeat,
                   const std::function<void(const Sample&)>& on_sample, RankResult& result);

}  // namespace ddprun
