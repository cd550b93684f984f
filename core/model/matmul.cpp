// Matrix products by ATen (MKL in float32, oneDNN in bfloat16), and by MKL itself where ATen has none.
#include "ddprun/model/matmul.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

#include <limits>

// MKL's product of bfloat16 matrices with a float32 result, which ATen has for CUDA alone. MKL is
// part of libtorch_cpu where that was built with it; the symbol is null where not. Row-major 101,
// no transposition 111, transposition 112.
extern "C" __attribute__((weak)) void cblas_gemm_bf16bf16f32(int layout, int transpose_a,
                                                             int transpose_b, int m, int n, int k,
                                                             float alpha, const void* a, int lda,
                                                             const void* b, int ldb, float beta,
                                                             float* c, int ldc);

namespace ddprun {

namespace {

bool fits_int(std::int64_t size) { return size <= std::numeric_limits<int>::max(); }

void bf16_weight_gradient(const at::Tensor& dy, const at::Tensor& x, bool add, at::Tensor& out) {
  if (cblas_gemm_bf16bf16f32 == nullptr || !fits_int(dy.size(0)) || !fits_int(dy.size(1)) ||
      !fits_int(x.size(1))) {
    const at::Tensor product = at::mm(dy.t(), x);
    if (add) {
      out.add_(product);
    } else {
      out.copy_(product);
    }
    return;
  }
  // Adding to zeros takes MKL half the time of overwriting.
  if (!add) out.zero_();
  const int rows = static_cast<int>(dy.size(0));
  const int out_width = static_cast<int>(dy.size(1));
  const int in_width = static_cast<int>(x.size(1));
  cblas_gemm_bf16bf16f32(101, 112, 111, out_width, in_width, rows, 1.0F, dy.const_data_ptr(),
                         out_width, x.const_data_ptr(), in_width, 1.0F, out.data_ptr<float>(),
                         in_width);
}

}  // namespace

at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight) {
  return at::mm(x, weight.t());
}

at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight) {
  return at::mm(dy, weight);
}

void weight_gradient(const at::Tensor& dy, const at::Tensor& x, bool add, at::Tensor& out) {
  if (x.scalar_type() == at::kBFloat16) {
    bf16_weight_gradient(dy, x, add, out);
  } else if (add) {
    at::addmm_out(out, out, dy.t(), x);
  } else {
    at::mm_out(out, dy.t(), x);
  }
}

}  // namespace ddprun
