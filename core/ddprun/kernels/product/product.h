// Products of row-major matrices given by pointers, with float32 results.
#pragma once

#include <cstdint>

#include "ddprun/kernels/types.h"

namespace ddprun::kernels {

/// A row-major matrix: row i begins at data + i * stride.
template <typename T>
struct Matrix {
  T* data;
  std::int64_t stride;

  Matrix from(std::int64_t row, std::int64_t column = 0) const {
    return {data + row * stride + column, stride};
  }
};

/// Whether an operand enters as it is or transposed.
enum class Op { plain, transposed };

/// c (m, n) = op(a) (m, k) op(b) (k, n), or c += that if `add`. Sums are float32. Unlike the other
/// kernels, it may use torch's threads and allocate. It runs as float_path() or product_path()
/// says.
void product(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
             Matrix<const float> a, Matrix<const float> b, bool add, Matrix<float> c);
void product(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, Matrix<const bf16> a,
             Matrix<const bf16> b, bool add, Matrix<float> c);

/// c = op(a) op(b), rounded to bfloat16 once.
void product(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, Matrix<const bf16> a,
             Matrix<const bf16> b, Matrix<bf16> c);

/// The same by MKL, which is part of libtorch_cpu on x86-64. Where it is not, this is
/// product_by_aten().
void product_by_library(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                        Matrix<const float> a, Matrix<const float> b, bool add, Matrix<float> c);
void product_by_library(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                        Matrix<const bf16> a, Matrix<const bf16> b, bool add, Matrix<float> c);

/// The same by float32 products: operands are widened first, in memory that the thread keeps.
void product_by_floats(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                       Matrix<const bf16> a, Matrix<const bf16> b, bool add, Matrix<float> c);
void product_by_floats(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                       Matrix<const bf16> a, Matrix<const bf16> b, Matrix<bf16> c);

/// The same by ATen, for a LibTorch whose BLAS is not MKL: bfloat16 results are rounded to bfloat16
/// before they become float32.
void product_by_aten(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                     Matrix<const float> a, Matrix<const float> b, bool add, Matrix<float> c);
void product_by_aten(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                     Matrix<const bf16> a, Matrix<const bf16> b, bool add, Matrix<float> c);
void product_by_aten(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                     Matrix<const bf16> a, Matrix<const bf16> b, Matrix<bf16> c);

}  // namespace ddprun::kernels
