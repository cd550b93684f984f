// What ranks own in parts, put together on every rank: for checks and comparisons.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "ddprun/parallel/data_parallel.h"

namespace ddprun {

/// The updated parameters, or the mean of the gradients, of `range`, (range.size(),). All ranks
/// call it, outside of measured time: where ranks own parts, each broadcasts its own. Where each
/// owns everything it is a view, and nothing is sent.
at::Tensor whole_parameters(const DataParallel& data_parallel, Range range);
at::Tensor whole_gradients(const DataParallel& data_parallel, Range range);

/// A copy of whole_gradients() of all, float32, divided by `scaled_by` (Loss::scaled_by()). All
/// ranks call it.
at::Tensor unscaled_gradients(const DataParallel& data_parallel, const at::Tensor& scaled_by);

/// What one saves: all parameters of the model by the names that DataParallel was given, in
/// registration order, frozen and tied ones too. New tensors in the model's shapes, in the dtype in
/// which the optimizer updates them (frozen: in the model's), on their device. All ranks call it.
std::vector<NamedTensor> full_parameters(const DataParallel& data_parallel);

}  // namespace ddprun
