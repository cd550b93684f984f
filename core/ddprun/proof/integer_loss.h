// A loss whose gradients are the proof's integers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "ddprun/parallel/data_parallel.h"
#include "ddprun/proof/proof_integers.h"

namespace ddprun {

/// Whose integers of which micro-batch.
struct IntegersOf {
  int rank = 0;
  int micro_batch = 0;
  std::uint64_t draw = 0;  ///< of the elements that are looked at
};

/// A scalar whose gradients are these integers. It is computed unit by unit, as a model computes
/// its loss. Where ranks keep parts of the parameters, backward looks at some elements of each
/// parameter that a model would read then, and writes to `wrong` what it finds that forward did not
/// read. `integers` and `wrong` outlive its backward.
at::Tensor loss_with_integer_gradients(DataParallel& data_parallel, const ProofIntegers& integers,
                                       IntegersOf of, std::string& wrong);

}  // namespace ddprun
