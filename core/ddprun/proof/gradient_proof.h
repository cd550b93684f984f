// The check of the gradients that fused kernels compute, by PyTorch's own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "ddprun/parallel/data_parallel.h"
#include "ddprun/result/check.h"

namespace ddprun {

/// The loss of one batch by one model: as a step computes it, and by PyTorch's operators alone.
struct TwoLosses {
  std::function<at::Tensor()> own, reference;
};

/// Computes this rank's gradients twice, by a backward of each loss, with the strategy's hooks and
/// under the precision, and compares a drawn run of elements in each parameter
/// ("gradients_computed"), and both losses, and the own one without gradients. They may differ by
/// what products in the declared format leave open.
/// Leaves the gradients unset, and parameters, moments and the strategy's state untouched. All
/// ranks call it alike, between steps. Training thread.
Check check_gradients_computed(DataParallel& data_parallel, ProcessGroup& group,
                               const TwoLosses& losses, std::uint64_t draw);
/// The losses alone, without gradients ("loss_computed"): of what has no backward.
Check check_loss_computed(DataParallel& data_parallel, ProcessGroup& group,
                          const TwoLosses& losses);

}  // namespace ddprun
