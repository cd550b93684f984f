// What the kernels take: element types, and matrices by pointers.
#pragma once

#include <c10/util/BFloat16.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace ddprun::kernels {

/// Kernels compute in float32 whatever the element type, and round to bf16 to nearest even. Every
/// kernel runs on the calling thread alone and allocates nothing. Pointers may have any alignment,
/// and rows any width; rows are contiguous unless a stride is given. Arrays may overlap only where
/// a declaration says so.
using bf16 = c10::BFloat16;

/// Two bfloat16 values that are neighbours in the direction of the sum. An instruction that
/// multiplies bfloat16 takes them together.
struct Pair {
  bf16 first, second;
};
static_assert(sizeof(Pair) == sizeof(float));

/// The least multiple of `to` that is not below `value`.
constexpr std::int64_t round_up(std::int64_t value, std::int64_t to) {
  return (value + to - 1) / to * to;
}

/// A matrix: element (i, j) is data[i * stride + j], or data[j * stride + i] if it is column_major.
template <typename T>
struct Matrix {
  T* data = nullptr;
  std::int64_t rows = 0, columns = 0, stride = 0;
  bool column_major = false;

  Matrix transposed() const { return {data, columns, rows, stride, !column_major}; }
  std::int64_t row_stride() const { return column_major ? 1 : stride; }
  std::int64_t column_stride() const { return column_major ? stride : 1; }

  /// What begins at (row, column).
  Matrix from(std::int64_t row, std::int64_t column = 0) const {
    return {data + row * row_stride() + column * column_stride(), rows - row, columns - column,
            stride, column_major};
  }
  /// The same, of at most so many rows and columns.
  Matrix block(std::int64_t row, std::int64_t column, std::int64_t most_rows,
               std::int64_t most_columns) const {
    Matrix part = from(row, column);
    part.rows = std::min(part.rows, most_rows);
    part.columns = std::min(part.columns, most_columns);
    return part;
  }

  template <typename U>
  requires(!std::is_same_v<U, T> && std::is_same_v<U, const T>) operator Matrix<U>()
      const {  // NOLINT(google-explicit-constructor): as T* becomes const T*
    return {data, rows, columns, stride, column_major};
  }
};

}  // namespace ddprun::kernels
