// The check of the gradients that fused kernels compute, by PyTorch's own.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "ddprun/parallel/data_parallel.h"
#include "ddprun/result/check.h"

namespace ddprun {

/// The loss of one batch by one model: as a step computes it, by PyTorch's operators alone in the
/// format of the step's products, and by these in float64.
struct LossesOfBatch {
  std::function<at::Tensor()> own, plain, exact;
};

/// Computes this rank's gradients three times, by a backward of each loss under the precision, the
/// own one with the strategy's hooks. Compares a drawn run of elements in each parameter with
/// float64's ("gradients_computed"): the own ones may be off by twenty times what those of
/// PyTorch's operators in the products' format are, of this parameter or usually. Compares the own
/// loss, with gradients and without, too. Leaves the gradients unset, and parameters, moments and
/// the strategy's state untouched. All ranks call it alike, between steps. Training thread.
Check check_gradients_computed(DataParallel& data_parallel, ProcessGroup& group,
                               const LossesOfBatch& losses, std::uint64_t draw);
/// The losses alone, without gradients ("loss_computed"): of what has no backward.
Check check_loss_computed(DataParallel& data_parallel, ProcessGroup& group,
                          const LossesOfBatch& losses);

}  // namespace ddprun
