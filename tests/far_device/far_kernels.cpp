// CUDA's kernels where there is no GPU: the operators that fused layers call, run on the CPU under
// a key that nothing else uses. The far device's tensors come here as their aliases.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "ddprun/cuda/kernels/kernel_operators.h"

namespace ddprun::cuda {

cudaStream_t current_stream(c10::Device /*device*/) { return nullptr; }

TORCH_LIBRARY_IMPL(ddprun, PrivateUse1, library) { define_kernel_operators(library); }

}  // namespace ddprun::cuda
