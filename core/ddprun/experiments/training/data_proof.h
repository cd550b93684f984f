// The check of what a step read: its global batch, and each sample once.
#pragma once

#include <cstdint>
#include <vector>

#include "ddprun/comm/group/process_group.h"
#include "ddprun/data/data.h"
#include "ddprun/result/check.h"

namespace ddprun {

/// Compares the tokens that the ranks trained on in `step`, `read` on this one in micro-batches,
/// with the samples of the step's global batch, of which each rank looks up an equal part by the
/// plain rule: rank r those from r * its count on. Together they must be the same
/// ("samples_read"). All ranks call it.
Check check_samples_read(const DataSource& data, std::int64_t step, const std::vector<Batch>& read,
                         ProcessGroup& group);

}  // namespace ddprun
