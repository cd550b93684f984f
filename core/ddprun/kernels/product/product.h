// Products of matrices given by pointers.
#pragma once

#include "ddprun/kernels/types.h"

namespace ddprun::kernels {

/// c = a b, or c += a b if `add`. a (m, k), b (k, n), c (m, n), which is not column-major. E and T
/// are float and float, bf16 and float, or bf16 and bf16, where sums are rounded once and `add` is
/// false. Sums are float32. Unlike the other kernels, it may use torch's threads and allocate. It
/// runs as float_path() or product_path() says.
template <typename E, typename T>
void product(Matrix<const E> a, Matrix<const E> b, bool add, Matrix<T> c);

/// The same by MKL, which is part of libtorch_cpu on x86-64. Where it is not, and for results in
/// bfloat16, this is product_by_aten().
template <typename E, typename T>
void product_by_library(Matrix<const E> a, Matrix<const E> b, bool add, Matrix<T> c);

/// The same by float32 products: operands are widened first, in memory that the thread keeps.
template <typename T>
void product_by_floats(Matrix<const bf16> a, Matrix<const bf16> b, bool add, Matrix<T> c);

/// The same by ATen, for a LibTorch whose BLAS is not MKL: results of bfloat16 operands are rounded
/// to bfloat16 before they become float32.
template <typename E, typename T>
void product_by_aten(Matrix<const E> a, Matrix<const E> b, bool add, Matrix<T> c);

}  // namespace ddprun::kernels
