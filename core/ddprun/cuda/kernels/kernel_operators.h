// The operators that our kernels compute, for whoever has a device that runs them.
// Family: kernel_operators.cpp cuda_operators.cpp
#pragma once

#include <c10/core/Device.h>
#include <cuda_runtime.h>
#include <torch/library.h>

namespace ddprun::cuda {

/// Implements them under the key of `library`: of fused layers all but the products, and AdamW.
void define_kernel_operators(torch::Library& library);

/// On which the calling thread enqueues work of the device. Defined beside the device.
cudaStream_t current_stream(c10::Device device);

}  // namespace ddprun::cuda
