// Rows of a head as the products of tiles take them.
#pragma once

#include <cstdint>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "ddprun/kernels/attention/flash_tiles.h"
#include "ddprun/kernels/attention/tile_layout.h"
#include "ddprun/kernels/attention/tile_product.h"
#include "ddprun/kernels/rows/convert.h"

namespace ddprun::kernels {

/// What the products of T sum over step by step.
template <class T>
using Element = std::conditional_t<std::is_same_v<T, float>, float, Pair>;

template <class T>
constexpr std::int64_t kTermsAStep = sizeof(Element<T>) / sizeof(T);

/// Steps of a sum over `terms` terms.
template <class T>
constexpr std::int64_t steps_of(std::int64_t terms) {
  return (terms + kTermsAStep<T> - 1) / kTermsAStep<T>;
}

template <class T>
void write_rows(const Matrix<const T>& from, const Matrix<T>& to) {
  if (from.data == to.data) return;
  for (std::int64_t row = 0; row < from.rows; ++row) {
    std::memcpy(to.from(row).data, from.from(row).data,
                static_cast<std::size_t>(from.columns) * sizeof(T));
  }
}
inline void write_rows(const Matrix<const float>& from, const Matrix<bf16>& to) {
  for (std::int64_t row = 0; row < from.rows; ++row) {
    to_bf16(from.columns, from.from(row).data, to.from(row).data);
  }
}

/// Rows in the type that is multiplied: where they lie, or widened to `memory`.
template <class T>
Matrix<const T> multiplied(const Matrix<const T>& in, T* /*memory*/) {
  return in;
}
inline Matrix<const float> multiplied(const Matrix<const bf16>& in, float* memory) {
  for (std::int64_t row = 0; row < in.rows; ++row) {
    to_float(in.columns, in.from(row).data, memory + row * in.columns);
  }
  return {memory, in.rows, in.columns, in.columns};
}

/// Whether rows share few sets of the first-level cache, which has 64 of a line each: those of
/// several heads lie some KB apart.
template <class T>
bool crowded(const Matrix<const T>& rows) {
  constexpr std::int64_t kSets = 64;
  const std::int64_t bytes = rows.stride * static_cast<std::int64_t>(sizeof(T));
  return bytes % 64 == 0 && std::gcd(bytes / 64, kSets) > 8;
}

/// The same where they do not crowd each other: where they lie, or one after another in `memory`.
template <class T>
Matrix<const T> dense(const Matrix<const T>& in, T* memory) {
  if (in.stride == in.columns || !crowded(in)) return in;
  const Matrix<T> copy = {memory, in.rows, in.columns, in.columns};
  write_rows(in, copy);
  return copy;
}
inline Matrix<const float> dense(const Matrix<const bf16>& in, float* memory) {
  return multiplied(in, memory);
}

/// Rows as an operand that sums along them, where they lie.
inline Matrix<const float> along_rows(const Matrix<const float>& rows) { return rows; }
inline Matrix<const Pair> along_rows(const Matrix<const bf16>& rows) {
  return {reinterpret_cast<const Pair*>(rows.data), rows.rows, steps_of<bf16>(rows.columns),
          rows.stride / 2};
}

/// Rows as an operand that sums down the columns.
template <class S>
Matrix<const float> down_columns(const Matrix<const S>& in, float* memory) {
  return dense(in, memory);
}
template <class S>
Matrix<const Pair> down_columns(const Matrix<const S>& in, Pair* memory) {
  pair_rows(in, memory);
  return {memory, steps_of<bf16>(in.rows), in.columns, in.columns};
}

/// Lanes of whole vectors that hold so many.
constexpr std::int64_t whole_lanes(std::int64_t count) { return round_up(count, kLaneUnit); }

/// Rows as a right operand that sums along them: a row a lane.
template <class E>
Matrix<const E> row_a_lane(const Matrix<const E>& along, E* memory) {
  const std::int64_t count = whole_lanes(along.rows);
  const Matrix<E> lanes = {memory, along.columns, count, count};
  transpose(along, lanes);
  return lanes;
}

}  // namespace ddprun::kernels
