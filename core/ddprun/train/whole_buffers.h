// What ranks own in parts, put together on every rank: for checks and comparisons.
#pragma once

#include <ATen/core/Tensor.h>

#include "ddprun/train/data_parallel.h"

namespace ddprun {

/// The updated parameters, or the mean of the gradients, of `range`, (range.size(),). All ranks
/// call it, outside of measured time: where ranks own parts, each broadcasts its own. Where each
/// owns everything it is a view, and nothing is sent.
at::Tensor whole_parameters(const DataParallel& data_parallel, Range range);
at::Tensor whole_gradients(const DataParallel& data_parallel, Range range);

}  // namespace ddprun
