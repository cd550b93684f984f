// Matrix products by ATen (MKL in float32, oneDNN in bfloat16), and by MKL where ATen has none.
#include "ddprun/model/matmul.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/mm.h>

#include "ddprun/kernels/product.h"

namespace ddprun {

at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight) {
  return at::mm(x, weight.t());
}

at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight) {
  return at::mm(dy, weight);
}

void weight_gradient(const at::Tensor& dy, const at::Tensor& x, bool add, at::Tensor& out) {
  if (x.scalar_type() == at::kBFloat16) {
    // Adding to zeros takes MKL half the time of overwriting.
    if (!add) out.zero_();
    kernels::product(kernels::Op::transposed, kernels::Op::plain, dy.size(1), x.size(1), x.size(0),
                     {dy.const_data_ptr<at::BFloat16>(), dy.stride(0)},
                     {x.const_data_ptr<at::BFloat16>(), x.stride(0)}, /*add=*/true,
                     {out.data_ptr<float>(), out.stride(0)});
  } else if (add) {
    at::addmm_out(out, out, dy.t(), x);
  } else {
    at::mm_out(out, dy.t(), x);
  }
}

}  // namespace ddprun
