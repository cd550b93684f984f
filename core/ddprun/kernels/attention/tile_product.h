// Products of small matrices whose operands are already laid out for the registers.
#pragma once

#include <cstdint>

#include "ddprun/kernels/product/product.h"

namespace ddprun::kernels {

/// Two bfloat16 values that are neighbours in the direction of the sum. An instruction that
/// multiplies bfloat16 takes them together.
struct Pair {
  bf16 first, second;
};
static_assert(sizeof(Pair) == sizeof(float));

// A product sums over steps. A step is one term if the element E is a float, two if it is a Pair.

/// A left operand: row r's element of step s is data[r * row_stride + s * step_stride].
template <class E>
struct Left {
  const E* data;
  std::int64_t row_stride, step_stride;

  Left from(std::int64_t row) const { return {data + row * row_stride, row_stride, step_stride}; }
  Left from_step(std::int64_t step) const {
    return {data + step * step_stride, row_stride, step_stride};
  }
};

/// A right operand: step s's lanes lie side by side from data + s * stride on.
template <class E>
struct Right {
  const E* data;
  std::int64_t stride;

  Right from_lane(std::int64_t lane) const { return {data + lane, stride}; }
  Right from_step(std::int64_t step) const { return {data + step * stride, stride}; }
};

/// `lanes` below is a multiple of this.
constexpr std::int64_t kLaneUnit = 16;

/// c (rows, lanes) = left (rows, steps) right (steps, lanes), or c += that if `add`. Sums are
/// float32, over some tens of steps at a time. c overlaps no operand.
void tile_product(std::int64_t rows, std::int64_t lanes, std::int64_t steps,
                  const Left<float>& left, const Right<float>& right, bool add, Matrix<float> c);

/// The same of pairs, by AMX or by AVX-512's bfloat16 instructions where that is the
/// product_path(). Else it is tile_product_by_floats(), which is slower than widening whole tiles
/// and multiplying floats.
void tile_product(std::int64_t rows, std::int64_t lanes, std::int64_t steps, const Left<Pair>& left,
                  const Right<Pair>& right, bool add, Matrix<float> c);

/// The same on any CPU: each half of a pair is widened to float32 in a register.
void tile_product_by_floats(std::int64_t rows, std::int64_t lanes, std::int64_t steps,
                            const Left<Pair>& left, const Right<Pair>& right, bool add,
                            Matrix<float> c);

}  // namespace ddprun::kernels
