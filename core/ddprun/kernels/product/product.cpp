// Products by the CPU's instructions for bfloat16, by MKL, which is part of libtorch_cpu on x86-64,
// or by ATen.
#include "ddprun/kernels/product/product.h"

#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <limits>
#include <type_traits>

#include "ddprun/kernels/product/blocked_product.h"
#include "ddprun/kernels/product/product_instructions.h"
#include "ddprun/kernels/product/product_path.h"
#include "ddprun/kernels/product/workspace.h"
#include "ddprun/kernels/rows/convert.h"
#include "ddprun/kernels/this_cpu.h"

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

constexpr std::int64_t kConverted = 65536;  // values worth a thread's start

template <typename T>
at::Tensor as_tensor(const Matrix<T>& matrix) {
  using E = std::remove_const_t<T>;
  return at::from_blob(const_cast<E*>(matrix.data), {matrix.rows, matrix.columns},
                       {matrix.row_stride(), matrix.column_stride()},
                       c10::CppTypeToScalarType<E>::value);
}

/// Calls multiply(a, b, c) for parts of c, with what each needs of the operands. The parts are cut
/// along the longer side and spread over torch's threads.
template <typename E, typename T, typename F>
void for_parts(const Matrix<const E>& a, const Matrix<const E>& b, const Matrix<T>& c,
               const F& multiply) {
  constexpr std::int64_t kUnit = 32;        // a tile's worth of rows or columns, twice
  constexpr std::int64_t kGrain = 1 << 22;  // multiply-adds worth a thread's start
  const bool by_rows = c.rows > c.columns;
  const std::int64_t length = std::max(c.rows, c.columns);
  const std::int64_t units = (length + kUnit - 1) / kUnit;
  const std::int64_t unit_work =
      std::max<std::int64_t>(1, kUnit * a.columns * std::min(c.rows, c.columns));
  const std::int64_t grain = std::max<std::int64_t>(1, kGrain / unit_work);
  at::parallel_for(0, units, grain, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t first = begin * kUnit;
    const std::int64_t count = (end - begin) * kUnit;
    if (by_rows) {
      multiply(a.block(first, 0, count, a.columns), b, c.block(first, 0, count, c.columns));
    } else {
      multiply(a, b.block(0, first, b.rows, count), c.block(0, first, c.rows, count));
    }
  });
}

/// product() on the calling thread by kernels of this project's own.
template <typename E, typename T>
void multiply_by_own(const Matrix<const E>& a, const Matrix<const E>& b, bool add,
                     const Matrix<T>& c) {
  if constexpr (std::is_same_v<E, bf16>) {
    if (product_path() == ProductPath::amx) return amx_product(a, b, add, c);
    if (product_path() == ProductPath::avx512_bf16) return avx512_product<bf16>(a, b, add, c);
  }
  avx512_product<float>(a, b, add, c);
}

/// Calls convert(columns, from, to) for each row, on torch's threads.
template <typename S, typename T, typename F>
void convert_rows(const Matrix<const S>& from, const Matrix<T>& to, const F& convert) {
  at::parallel_for(0, from.rows, std::max<std::int64_t>(1, kConverted / (from.columns + 1)),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t row = begin; row < end; ++row) {
                       convert(from.columns, from.from(row).data, to.from(row).data);
                     }
                   });
}

/// The matrix in float32, as it lies, without gaps between rows.
Matrix<const float> widened(const Matrix<const bf16>& matrix, Workspace<float>& memory) {
  if (matrix.column_major) return widened(matrix.transposed(), memory).transposed();
  const std::int64_t stride = std::max<std::int64_t>(1, matrix.columns);
  const std::int64_t size = std::max<std::int64_t>(1, matrix.rows * matrix.columns);
  const Matrix<float> wide = {memory.at_least(size), matrix.rows, matrix.columns, stride};
  convert_rows(matrix, wide, to_float);
  return wide;
}

template <typename E>
bool fit_int(const Matrix<const E>& a, const Matrix<const E>& b, const Matrix<float>& c) {
  return std::max({c.rows, c.columns, a.columns, a.stride, b.stride, c.stride}) <=
         std::numeric_limits<int>::max();
}

/// Whether MKL is there and takes these sizes, and if so c.
bool multiply_by_mkl(const Matrix<const float>& a, const Matrix<const float>& b, bool add,
                     const Matrix<float>& c) {
  if (sgemm_ == nullptr || !fit_int(a, b, c)) return false;
  // In column-major order c^T = b^T a^T.
  const auto letter = [](const auto& matrix) { return matrix.column_major ? "T" : "N"; };
  const int rows = static_cast<int>(c.rows);
  const int columns = static_cast<int>(c.columns);
  const int depth = static_cast<int>(a.columns);
  const int lda = static_cast<int>(a.stride);
  const int ldb = static_cast<int>(b.stride);
  const int ldc = static_cast<int>(c.stride);
  const float one = 1.0F;
  const float beta = add ? 1.0F : 0.0F;
  sgemm_(letter(b), letter(a), &columns, &rows, &depth, &one, b.data, &ldb, a.data, &lda, &beta,
         c.data, &ldc);
  return true;
}

bool multiply_by_mkl(const Matrix<const bf16>& a, const Matrix<const bf16>& b, bool add,
                     const Matrix<float>& c) {
  if (cblas_gemm_bf16bf16f32 == nullptr || !fit_int(a, b, c)) return false;
  // Adding to zeros takes MKL half the time of overwriting.
  if (!add) as_tensor(c).zero_();
  // MKL would call the strides of nothing wrong.
  if (c.rows == 0 || c.columns == 0 || a.columns == 0) return true;
  const auto number = [](const auto& matrix) { return matrix.column_major ? 112 : 111; };
  cblas_gemm_bf16bf16f32(101, number(a), number(b), static_cast<int>(c.rows),
                         static_cast<int>(c.columns), static_cast<int>(a.columns), 1.0F, a.data,
                         static_cast<int>(a.stride), b.data, static_cast<int>(b.stride), 1.0F,
                         c.data, static_cast<int>(c.stride));
  return true;
}

}  // namespace

template <typename E, typename T>
void product(Matrix<const E> a, Matrix<const E> b, bool add, Matrix<T> c) {
  if constexpr (std::is_same_v<E, float>) {
    if (float_path() == FloatPath::library) return product_by_library(a, b, add, c);
  } else {
    const ProductPath path = product_path();
    if (path == ProductPath::float32 && !kHasAvx512Bf16) return product_by_floats(a, b, add, c);
    if (path == ProductPath::library) return product_by_library(a, b, add, c);
  }
  for_parts(a, b, c, [&](const auto& left, const auto& right, const auto& out) {
    multiply_by_own(left, right, add, out);
  });
}

template <typename E, typename T>
void product_by_library(Matrix<const E> a, Matrix<const E> b, bool add, Matrix<T> c) {
  if constexpr (std::is_same_v<T, float>) {
    if (multiply_by_mkl(a, b, add, c)) return;
  }
  product_by_aten(a, b, add, c);
}

template <typename T>
void product_by_floats(Matrix<const bf16> a, Matrix<const bf16> b, bool add, Matrix<T> c) {
  if constexpr (std::is_same_v<T, float>) {
    static thread_local Workspace<float> left, right;
    product(widened(a, left), widened(b, right), add, c);
  } else {
    static thread_local Workspace<float> sums;
    const Matrix<float> wide = {sums.at_least(c.rows * c.columns), c.rows, c.columns, c.columns};
    product_by_floats(a, b, false, wide);
    convert_rows(Matrix<const float>(wide), c, to_bf16);
  }
}

template <typename E, typename T>
void product_by_aten(Matrix<const E> a, Matrix<const E> b, bool add, Matrix<T> c) {
  at::Tensor out = as_tensor(c);
  if constexpr (std::is_same_v<T, bf16>) {
    at::mm_out(out, as_tensor(a), as_tensor(b));
  } else {
    const at::Tensor result = at::mm(as_tensor(a), as_tensor(b));
    add ? out.add_(result) : out.copy_(result);
  }
}

#define DDPRUN_PRODUCTS(E, T)                                                          \
  template void product(Matrix<const E>, Matrix<const E>, bool, Matrix<T>);            \
  template void product_by_library(Matrix<const E>, Matrix<const E>, bool, Matrix<T>); \
  template void product_by_aten(Matrix<const E>, Matrix<const E>, bool, Matrix<T>)

DDPRUN_PRODUCTS(float, float);
DDPRUN_PRODUCTS(bf16, float);
DDPRUN_PRODUCTS(bf16, bf16);
template void product_by_floats(Matrix<const bf16>, Matrix<const bf16>, bool, Matrix<float>);
template void product_by_floats(Matrix<const bf16>, Matrix<const bf16>, bool, Matrix<bf16>);

}  // namespace ddprun::kernels
