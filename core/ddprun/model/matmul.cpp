// Matrix products by our kernels, of float32 and bfloat16 tensors.
#include "ddprun/model/matmul.h"

#include <ATen/ops/empty.h>

#include "ddprun/kernels/operations.h"
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

/// Whether there is nothing to multiply, as on device meta. Then the operations are counted: each
/// value takes part in as many products as there are `others`.
bool counted(const at::Tensor& values, std::int64_t others) {
  if (!values.is_meta()) return false;
  kernels::dry_operations() +=
      2 * static_cast<double>(values.numel()) * static_cast<double>(others);
  return true;
}

/// Calls f with a value of the tensor's C++ type, unless it was counted().
template <typename F>
void with_dtype(const at::Tensor& tensor, std::int64_t others, const F& f) {
  if (counted(tensor, others)) return;
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
  with_dtype(x, weight.size(0), [&](auto zero) {
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
  with_dtype(dy, weight.size(1), [&](auto zero) {
    using T = decltype(zero);
    kernels::product(operand<T>(dy), operand<T>(weight), false, result<T>(out));
  });
}

void weight_gradient(const at::Tensor& dy, const at::Tensor& x, bool add, at::Tensor& out) {
  with_dtype(dy, x.size(1), [&](auto zero) {
    using T = decltype(zero);
    kernels::product(operand<T>(dy).transposed(), operand<T>(x), add, result<float>(out));
  });
}

void add_weight_gradients(Slots slots, const at::Tensor& dy, const at::Tensor& x) {
  const auto rounded = [&](at::Tensor& out) {
    if (counted(dy, x.size(1))) return;
    kernels::product(operand<at::BFloat16>(dy).transposed(), operand<at::BFloat16>(x), false,
                     result<at::BFloat16>(out));
  };
  if (write_reduced_gradients(slots, rounded)) return;
  add_gradients(slots, x.size(1),
                [&](bool add, at::Tensor& out) { weight_gradient(dy, x, add, out); });
}

}  // namespace ddprun
