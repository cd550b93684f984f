// Products by the CPU's instructions for bfloat16, by MKL, which is part of libtorch_cpu on x86-64,
// or by ATen.
#include "ddprun/kernels/product/product.h"

#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <limits>

#include "ddprun/kernels/product/blocked_product.h"
#include "ddprun/kernels/product/product_amx.h"
#include "ddprun/kernels/product/product_avx512.h"
#include "ddprun/kernels/product/product_avx512_float.h"
#include "ddprun/kernels/product/product_path.h"
#include "ddprun/kernels/rows/convert.h"

// BLAS's own interface, which is column-major, and MKL's product of bfloat16 matrices with a
// float32 result, which ATen has for CUDA alone (CBLAS: row-major 101, plain 111, transposed 112).
// Null if LibTorch was built without them.
extern "C" {
__attribute__((weak)) void sgemm_(const char* transpose_a, const char* transpose_b, const int* m,
                                  const int* n, const int* k, const float* alpha, const float* a,
                                  const int* lda, const float* b, const int* ldb, const float* beta,
                                  float* c, const int* ldc);
__attribute__((weak)) void cblas_gemm_bf16bf16f32(int layout, int transpose_a, int transpose_b,
                                                  int m, int n, int k, float alpha, const void* a,
                                                  int lda, const void* b, int ldb, float beta,
                                                  float* c, int ldc);
}

namespace ddprun::kernels {

namespace {

bool fit_int(std::initializer_list<std::int64_t> sizes) {
  return std::max(sizes) <= std::numeric_limits<int>::max();
}

template <typename T>
at::Tensor as_tensor(Matrix<const T> matrix, std::int64_t rows, std::int64_t columns, Op op) {
  if (op == Op::transposed) std::swap(rows, columns);
  const at::Tensor tensor = at::from_blob(const_cast<T*>(matrix.data), {rows, columns},
                                          {matrix.stride, 1}, c10::CppTypeToScalarType<T>::value);
  return op == Op::transposed ? tensor.t() : tensor;
}

at::Tensor zeros_of(Matrix<float> matrix, std::int64_t rows, std::int64_t columns) {
  return at::from_blob(matrix.data, {rows, columns}, {matrix.stride, 1}, at::kFloat).zero_();
}

/// op(matrix), from row `row` on, and from column `column` on.
template <typename T>
Matrix<T> rows_from(Op op, Matrix<T> matrix, std::int64_t row) {
  return op == Op::plain ? matrix.from(row) : matrix.from(0, row);
}
template <typename T>
Matrix<T> columns_from(Op op, Matrix<T> matrix, std::int64_t column) {
  return op == Op::plain ? matrix.from(0, column) : matrix.from(column);
}

/// Calls multiply(rows, columns, a, b, c) for parts of an (m, n) result, with what each needs of
/// the operands. The parts are cut along the longer side and spread over torch's threads.
template <typename E, typename T, typename F>
void for_parts(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, Matrix<const E> a,
               Matrix<const E> b, Matrix<T> c, const F& multiply) {
  constexpr std::int64_t kUnit = 32;        // a tile's worth of rows or columns, twice
  constexpr std::int64_t kGrain = 1 << 22;  // multiply-adds worth a thread's start
  const bool by_rows = m > n;
  const std::int64_t length = by_rows ? m : n;
  const std::int64_t units = (length + kUnit - 1) / kUnit;
  const std::int64_t unit_work = std::max<std::int64_t>(1, kUnit * k * (by_rows ? n : m));
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / unit_work);
  at::parallel_for(0, units, grain, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin * kUnit;
    const std::int64_t count = std::min(length, end * kUnit) - first;
    if (by_rows) {
      multiply(count, n, rows_from(op_a, a, first), b, c.from(first));
    } else {
      multiply(m, count, a, columns_from(op_b, b, first), c.from(0, first));
    }
  });
}

/// product() on the calling thread by the kernel of a path that has one of its own.
template <class... Arguments>
void by_own(ProductPath path, const Arguments&... arguments) {
  if (path == ProductPath::amx) return amx_product(arguments...);
  avx512_product(arguments...);
}

constexpr std::int64_t kConverted = 65536;  // values worth a thread's start

/// op(matrix) (rows, columns) in float32, as it lies, without gaps between rows.
Matrix<const float> widened(Op op, std::int64_t rows, std::int64_t columns,
                            Matrix<const bf16> matrix, Workspace<float>& memory) {
  if (op == Op::transposed) std::swap(rows, columns);
  float* const wide = memory.at_least(std::max<std::int64_t>(1, rows * columns));
  at::parallel_for(0, rows, std::max<std::int64_t>(1, kConverted / (columns + 1)),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t row = begin; row < end; ++row) {
                       to_float(columns, matrix.from(row).data, wide + row * columns);
                     }
                   });
  return {wide, std::max<std::int64_t>(1, columns)};
}

template <typename T>
void by_aten(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, Matrix<const T> a,
             Matrix<const T> b, bool add, Matrix<float> c) {
  const at::Tensor result = at::mm(as_tensor(a, m, k, op_a), as_tensor(b, k, n, op_b));
  at::Tensor out = at::from_blob(c.data, {m, n}, {c.stride, 1}, at::kFloat);
  if (add) {
    out.add_(result);
  } else {
    out.copy_(result);
  }
}

}  // namespace

void product(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
             Matrix<const float> a, Matrix<const float> b, bool add, Matrix<float> c) {
  if (float_path() == FloatPath::library) {
    return product_by_library(op_a, op_b, m, n, k, a, b, add, c);
  }
  for_parts(op_a, op_b, m, n, k, a, b, c,
            [&](auto rows, auto columns, auto left, auto right, auto out) {
              avx512_product(op_a, op_b, rows, columns, k, left, right, add, out);
            });
}

void product_by_library(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                        Matrix<const float> a, Matrix<const float> b, bool add, Matrix<float> c) {
  if (sgemm_ == nullptr || !fit_int({m, n, k, a.stride, b.stride, c.stride})) {
    return product_by_aten(op_a, op_b, m, n, k, a, b, add, c);
  }
  // In column-major order c^T = op(b)^T op(a)^T.
  const auto letter = [](Op op) { return op == Op::transposed ? "T" : "N"; };
  const int rows = static_cast<int>(m);
  const int columns = static_cast<int>(n);
  const int depth = static_cast<int>(k);
  const int lda = static_cast<int>(a.stride);
  const int ldb = static_cast<int>(b.stride);
  const int ldc = static_cast<int>(c.stride);
  const float one = 1.0F;
  const float beta = add ? 1.0F : 0.0F;
  sgemm_(letter(op_b), letter(op_a), &columns, &rows, &depth, &one, b.data, &ldb, a.data, &lda,
         &beta, c.data, &ldc);
}

void product(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, Matrix<const bf16> a,
             Matrix<const bf16> b, bool add, Matrix<float> c) {
  const ProductPath path = product_path();
  if (path == ProductPath::float32) return product_by_floats(op_a, op_b, m, n, k, a, b, add, c);
  if (path == ProductPath::library) return product_by_library(op_a, op_b, m, n, k, a, b, add, c);
  for_parts(op_a, op_b, m, n, k, a, b, c,
            [&](auto rows, auto columns, auto left, auto right, auto out) {
              by_own(path, op_a, op_b, rows, columns, k, left, right, add, out);
            });
}

void product(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k, Matrix<const bf16> a,
             Matrix<const bf16> b, Matrix<bf16> c) {
  const ProductPath path = product_path();
  if (path == ProductPath::float32) return product_by_floats(op_a, op_b, m, n, k, a, b, c);
  if (path == ProductPath::library) return product_by_aten(op_a, op_b, m, n, k, a, b, c);
  for_parts(op_a, op_b, m, n, k, a, b, c,
            [&](auto rows, auto columns, auto left, auto right, auto out) {
              by_own(path, op_a, op_b, rows, columns, k, left, right, out);
            });
}

void product_by_floats(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                       Matrix<const bf16> a, Matrix<const bf16> b, bool add, Matrix<float> c) {
  static thread_local Workspace<float> left, right;
  product(op_a, op_b, m, n, k, widened(op_a, m, k, a, left), widened(op_b, k, n, b, right), add, c);
}

void product_by_floats(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                       Matrix<const bf16> a, Matrix<const bf16> b, Matrix<bf16> c) {
  static thread_local Workspace<float> sums;
  const Matrix<float> wide = {sums.at_least(m * n), n};
  product_by_floats(op_a, op_b, m, n, k, a, b, false, wide);
  at::parallel_for(0, m, std::max<std::int64_t>(1, kConverted / (n + 1)),
                   [&](auto begin, auto end) {
                     for (std::int64_t row = begin; row < end; ++row) {
                       to_bf16(n, wide.from(row).data, c.from(row).data);
                     }
                   });
}

void product_by_library(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                        Matrix<const bf16> a, Matrix<const bf16> b, bool add, Matrix<float> c) {
  if (cblas_gemm_bf16bf16f32 == nullptr || !fit_int({m, n, k, a.stride, b.stride, c.stride})) {
    return product_by_aten(op_a, op_b, m, n, k, a, b, add, c);
  }
  // Adding to zeros takes MKL half the time of overwriting.
  if (!add) zeros_of(c, m, n);
  if (m == 0 || n == 0 || k == 0) return;  // MKL would call the strides wrong
  const auto number = [](Op op) { return op == Op::transposed ? 112 : 111; };
  cblas_gemm_bf16bf16f32(101, number(op_a), number(op_b), static_cast<int>(m), static_cast<int>(n),
                         static_cast<int>(k), 1.0F, a.data, static_cast<int>(a.stride), b.data,
                         static_cast<int>(b.stride), 1.0F, c.data, static_cast<int>(c.stride));
}

void product_by_aten(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                     Matrix<const float> a, Matrix<const float> b, bool add, Matrix<float> c) {
  by_aten(op_a, op_b, m, n, k, a, b, add, c);
}
void product_by_aten(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                     Matrix<const bf16> a, Matrix<const bf16> b, bool add, Matrix<float> c) {
  by_aten(op_a, op_b, m, n, k, a, b, add, c);
}
void product_by_aten(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                     Matrix<const bf16> a, Matrix<const bf16> b, Matrix<bf16> c) {
  at::Tensor out = at::from_blob(c.data, {m, n}, {c.stride, 1}, at::kBFloat16);
  at::mm_out(out, as_tensor(a, m, k, op_a), as_tensor(b, k, n, op_b));
}

}  // namespace ddprun::kernels
