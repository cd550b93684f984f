// The fused layers' operators on CUDA: kernels over rows, and products by cuBLAS.
#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "ddprun/cuda/kernels/kernel_operators.h"

namespace ddprun::cuda {

cudaStream_t current_stream(c10::Device device) {
  return c10::cuda::getCurrentCUDAStream(device.index());
}

namespace {

/// out = a b, or out += a b if `add`. bfloat16 operands may have a sum in float32, which is rounded
/// nowhere.
void product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& out, bool transpose_a,
             bool transpose_b, bool add) {
  const at::Tensor left = transpose_a ? a.t() : a;
  const at::Tensor right = transpose_b ? b.t() : b;
  at::Tensor sum = out;
  if (a.scalar_type() == out.scalar_type()) {
    add ? at::addmm_out(sum, sum, left, right) : at::mm_out(sum, left, right);
  } else {
    add ? at::addmm_out(sum, sum, left, right, sum.scalar_type())
        : at::mm_out(sum, left, right, sum.scalar_type());
  }
}

TORCH_LIBRARY_IMPL(ddprun, CUDA, library) {
  define_kernel_operators(library);
  library.impl("product", &product);
}

}  // namespace

}  // namespace ddprun::cuda
