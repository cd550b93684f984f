// The check of the gradients that fused kernels compute, by PyTorch's own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>

#include "ddprun/parallel/data_parallel.h"
#include "ddprun/result/check.h"

namespace ddprun {

/// The loss of one batch by one model: as a step computes it, and by PyTorch's operators alone.
struct TwoLosses {
  std::function<at::Tensor()> own, reference;
};

/// Computes this rank's gradients twice, by a backward of each loss, with the strategy's hooks and
/// under the precision, and compares a drawn run of elements in each parameter
/// ("gradients_computed"). What they may differ by is what products in the declared format leave
/// open: see difference_bound(). Leaves the gradients unset, and parameters, moments and the
/// strategy's state untouched. All ranks call it alike, between steps. Training thread.
Check check_gradients_computed(DataParallel& data_parallel, ProcessGroup& group,
                               const TwoLosses& losses, std::uint64_t draw);

/// By how much two right computations of a gradient may differ: the root mean square of the
/// difference over a run of elements, as a share of that of the run or, if that is more, of a tenth
/// of all runs'. `format`: PrecisionDtypes::product_format(). A `loss` of next to nothing allows
/// more: a probability of almost 1, less 1, is what rounding leaves of it.
double difference_bound(const std::string& format, double loss);

}  // namespace ddprun
