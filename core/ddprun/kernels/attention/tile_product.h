// Products of small matrices whose operands are already laid out for the registers.
#pragma once

#include "ddprun/kernels/types.h"

namespace ddprun::kernels {

/// Two bfloat16 values that are neighbours in the direction of the sum. An instruction that
/// multiplies bfloat16 takes them together.
struct Pair {
  bf16 first, second;
};
static_assert(sizeof(Pair) == sizeof(float));

/// `lanes` below is a multiple of this.
constexpr std::int64_t kLaneUnit = 16;

// A product sums over steps. A step is one term if the elements are floats, two if they are pairs.

/// c (rows, lanes) = left (rows, steps) right (steps, lanes), or c += that if `add`. Only left may
/// be column-major. Sums are float32, over some tens of steps at a time. c overlaps no operand.
void tile_product(const Matrix<const float>& left, const Matrix<const float>& right, bool add,
                  const Matrix<float>& c);

/// The same of pairs, by AMX or by AVX-512's bfloat16 instructions where that is the
/// product_path(). Else it is tile_product_by_floats(), which is slower than widening whole tiles
/// and multiplying floats.
void tile_product(const Matrix<const Pair>& left, const Matrix<const Pair>& right, bool add,
                  const Matrix<float>& c);

/// The same on any CPU: each half of a pair is widened to float32 in a register.
void tile_product_by_floats(const Matrix<const Pair>& left, const Matrix<const Pair>& right,
                            bool add, const Matrix<float>& c);

}  // namespace ddprun::kernels
