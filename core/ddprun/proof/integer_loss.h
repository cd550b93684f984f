// A loss whose gradients are the proof's integers.
#pragma once

#include <ATen/core/Tensor.h>

#include "ddprun/parallel/data_parallel.h"
#include "ddprun/proof/proof_integers.h"

namespace ddprun {

/// A scalar whose gradients are the integers of `rank` in `micro_batch`. It is computed unit by
/// unit, as a model computes its loss. `integers` outlives its backward.
at::Tensor loss_with_integer_gradients(DataParallel& data_parallel, const ProofIntegers& integers,
                                       int rank, int micro_batch);

}  // namespace ddprun
