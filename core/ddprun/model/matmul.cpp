// Matrix products by our kernels, of float32 and bfloat16 tensors.
#include "ddprun/model/matmul.h"

#include <ATen/ops/empty.h>
#include <ATen/record_function.h>

#include <vector>

#include "ddprun/kernels/product/product.h"

namespace ddprun {

namespace {

template <typename T>
kernels::Matrix<const T> operand(const at::Tensor& matrix) {
  return {matrix.const_data_ptr<T>(), matrix.size(0), matrix.size(1), matrix.stride(0)};
}

template <typename T>
kernels::Matrix<T> result(const at::Tensor& matrix) {
  return {matrix.data_ptr<T>(), matrix.size(0), matrix.size(1), matrix.stride(0)};
}

/// Calls f with a value of the tensor's C++ type. On device meta there is nothing to multiply.
template <typename F>
void with_dtype(const at::Tensor& tensor, const F& f) {
  if (tensor.is_meta()) return;
  if (tensor.scalar_type() == at::kBFloat16) {
    f(at::BFloat16{});
  } else {
    f(float{});
  }
}

}  // namespace

at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight) {
  at::Tensor out = at::empty({x.size(0), weight.size(0)}, x.options());
  linear_product_out(x, weight, out);
  return out;
}

void linear_product_out(const at::Tensor& x, const at::Tensor& weight, at::Tensor& out) {
  RECORD_FUNCTION("ddprun::product", std::vector<c10::IValue>({x, weight, out}));
  with_dtype(x, [&](auto zero) {
    using T = decltype(zero);
    kernels::product(operand<T>(x), operand<T>(weight).transposed(), false, result<T>(out));
  });
}

at::Tensor input_gradient(const at::Tensor& dy, const at::Tensor& weight) {
  at::Tensor out = at::empty({dy.size(0), weight.size(1)}, dy.options());
  input_gradient_out(dy, weight, out);
  return out;
}

void input_gradient_out(const at::Tensor& dy, const at::Tensor& weight, at::Tensor& out) {
  RECORD_FUNCTION("ddprun::product", std::vector<c10::IValue>({dy, weight, out}));
  with_dtype(dy, [&](auto zero) {
    using T = decltype(zero);
    kernels::product(operand<T>(dy), operand<T>(weight), false, result<T>(out));
  });
}

void weight_gradient(const at::Tensor& dy, const at::Tensor& x, bool add, at::Tensor& out) {
  RECORD_FUNCTION("ddprun::product", std::vector<c10::IValue>({dy, x, out}));
  with_dtype(x, [&](auto zero) {
    using T = decltype(zero);
    kernels::product(operand<T>(dy).transposed(), operand<T>(x), add, result<float>(out));
  });
}

void add_weight_gradients(Slots slots, const at::Tensor& dy, const at::Tensor& x) {
  const auto rounded = [&](at::Tensor& out) {
    RECORD_FUNCTION("ddprun::product", std::vector<c10::IValue>({dy, x, out}));
    if (x.is_meta()) return;
    kernels::product(operand<at::BFloat16>(dy).transposed(), operand<at::BFloat16>(x), false,
                     result<at::BFloat16>(out));
  };
  if (write_reduced_gradients(slots, rounded)) return;
  add_gradients(slots, x.size(1),
                [&](bool add, at::Tensor& out) { weight_gradient(dy, x, add, out); });
}

}  // namespace ddprun
