// Matrix products by our kernels, of float32 and bfloat16 tensors.
#include "ddprun/model/matmul.h"

#include <ATen/ops/empty.h>

#include "ddprun/kernels/product/product.h"

namespace ddprun {

namespace {

using kernels::Op;

template <typename T>
kernels::Matrix<const T> operand(const at::Tensor& matrix) {
  return {matrix.const_data_ptr<T>(), matrix.stride(0)};
}

template <typename T>
kernels::Matrix<T> result(const at::Tensor& matrix) {
  return {matrix.data_ptr<T>(), matrix.stride(0)};
}

}  // namespace

at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight) {
  at::Tensor out = at::empty({x.size(0), weight.size(0)}, x.options());
  linear_product_out(x, weight, out);
  return out;
}

void linear_product_out(const at::Tensor& x, const at::Tensor& weight, at::Tensor& out) {
  if (x.scalar_type() == at::kBFloat16) {
    kernels::product(Op::plain, Op::transposed, x.size(0), weight.size(0), x.size(1),
                     operand<at::BFloat16>(x), operand<at::BFloat16>(weight),
                     result<at::BFloat16>(out));
  } else {
    kernels::product(Op::plain, Op::transposed, x.size(0), weight.size(0), x.size(1),
                     operand<float>(x), operand<float>(weight), false, result<float>(out));
  }
}

at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight) {
  at::Tensor out = at::empty({dy.size(0), weight.size(1)}, dy.options());
  input_gradient_out(dy, weight, out);
  return out;
}

void input_gradient_out(const at::Tensor& dy, const at::Tensor& weight, at::Tensor& out) {
  if (dy.scalar_type() == at::kBFloat16) {
    kernels::product(Op::plain, Op::plain, dy.size(0), weight.size(1), dy.size(1),
                     operand<at::BFloat16>(dy), operand<at::BFloat16>(weight),
                     result<at::BFloat16>(out));
  } else {
    kernels::product(Op::plain, Op::plain, dy.size(0), weight.size(1), dy.size(1),
                     operand<float>(dy), operand<float>(weight), false, result<float>(out));
  }
}

void weight_gradient(const at::Tensor& dy, const at::Tensor& x, bool add, at::Tensor& out) {
  if (x.scalar_type() == at::kBFloat16) {
    kernels::product(Op::transposed, Op::plain, dy.size(1), x.size(1), x.size(0),
                     operand<at::BFloat16>(dy), operand<at::BFloat16>(x), add, result<float>(out));
  } else {
    kernels::product(Op::transposed, Op::plain, dy.size(1), x.size(1), x.size(0),
                     operand<float>(dy), operand<float>(x), add, result<float>(out));
  }
}

void add_weight_gradients(Slots slots, const at::Tensor& dy, const at::Tensor& x) {
  const auto rounded = [&](at::Tensor& out) {
    kernels::product(Op::transposed, Op::plain, dy.size(1), x.size(1), x.size(0),
                     operand<at::BFloat16>(dy), operand<at::BFloat16>(x),
                     result<at::BFloat16>(out));
  };
  if (write_reduced_gradients(slots, rounded)) return;
  add_gradients(slots, x.size(1),
                [&](bool add, at::Tensor& out) { weight_gradient(dy, x, add, out); });
}

}  // namespace ddprun
