// AdamW on a GPU: one pass over parameters, moments and gradients, which writes the copy that
// products read.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "ddprun/kernels/rows/optimizer.h"

namespace ddprun::cuda {

using kernels::bf16;

/// Of one step, in the device's memory, so that a captured step reads them anew.
struct AdamwState {
  const float *lr, *steps;  ///< steps: this one included
  const float* factor;      ///< gradients are multiplied by it; null: 1
  const float* overflow;    ///< above 0 nothing is updated; null: 0
  kernels::AdamwSettings settings;
};

/// Arrays of `count`; copy may be null. Gradient, Parameter, Moment: each float or bf16.
template <class Gradient, class Parameter, class Moment>
struct AdamwArrays {
  std::int64_t count;
  const Gradient* gradient;
  Parameter* parameter;
  Moment *mean, *square;
  bf16* copy;
};

/// The arithmetic of kernels::adamw_loop() on the CPU: nothing is contracted, so that bits do not
/// depend on where a value lies.
template <class Gradient, class Parameter, class Moment>
void adamw(cudaStream_t stream, const AdamwState& state,
           const AdamwArrays<Gradient, Parameter, Moment>& arrays);

}  // namespace ddprun::cuda
