// Products of matrices, block by block: what the instructions for them share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "ddprun/kernels/product/workspace.h"
#include "ddprun/kernels/types.h"

namespace ddprun::kernels {

/// Packed operands of a block of c: panels of kRows rows of a, and of kColumns columns of b, each
/// `depth` deep.
template <class E>
struct Packed {
  const E* a;
  const E* b;
  std::int64_t depth;
  bool whole;  // whether that is all of k, not a part of a sum

  const E* panel_a(std::int64_t row) const { return a + row * depth; }
  const E* panel_b(std::int64_t column) const { return b + column * depth; }
};

// An inner kernel `I` is a struct of static members:
//   Element              of packed a and b: bf16 or float
//   kRows, kColumns      of a panel of a, and of b
//   kStep                of which every depth is a multiple; what is missing counts as zero
//   kBlockM, kBlockN, kBlockK, kKept   what stays in the caches, in elements: at most so many
//   pack_left(a, out), pack_right(b, out)   panels of a block of an operand
//   multiply(packed, addend, c)   c = the block of a times that of b, plus addend if there is one.
//                                 c is float32, and then addend is c, or bfloat16, rounded once,
//                                 and then addend is in whole panels

/// How deep the blocks of k are: all alike, since a thin one at the end would add to all of c for
/// little.
template <class I>
std::int64_t block_depth(std::int64_t k) {
  const std::int64_t blocks = (k + I::kBlockK - 1) / I::kBlockK;
  return round_up((k + blocks - 1) / blocks, I::kStep);
}

/// Computes at most kBlockM rows of c: kBlockN columns at a time, each over all of k. b may be a
/// single block that the call before has packed.
template <class I, typename E, typename T>
void multiply_rows(const Matrix<const E>& a, const Matrix<const E>& b, bool add, const Matrix<T>& c,
                   bool b_is_packed) {
  using P = typename I::Element;
  static thread_local Workspace<P> left, right;
  static thread_local Workspace<float> partial;
  const std::int64_t k = a.columns;
  const std::int64_t rows = round_up(a.rows, I::kRows);
  const std::int64_t depth = round_up(k, I::kStep);
  const std::int64_t block = block_depth<I>(k);
  const bool keep_a = rows * depth <= I::kKept;
  P* const packed_a = left.at_least(rows * (keep_a ? depth : block));
  P* const packed_b = right.at_least(I::kBlockN * block);
  const auto pack_a = [&](std::int64_t from, P* out) {
    I::pack_left(a.block(0, from, a.rows, block), out);
  };
  if (keep_a) {
    for (std::int64_t from = 0; from < k; from += block) pack_a(from, packed_a + rows * from);
  }
  for (std::int64_t column = 0; column < c.columns; column += I::kBlockN) {
    const Matrix<T> out = c.block(0, column, c.rows, I::kBlockN);
    for (std::int64_t from = 0; from < k; from += block) {
      const std::int64_t deep = std::min(block, k - from);
      if (!keep_a) pack_a(from, packed_a);
      if (!b_is_packed) I::pack_right(b.block(from, column, deep, I::kBlockN), packed_b);
      const Packed<P> packed = {keep_a ? packed_a + rows * from : packed_a, packed_b,
                                round_up(deep, I::kStep), deep == k};
      if constexpr (std::is_same_v<T, float>) {
        I::multiply(packed, add || from > 0 ? out : Matrix<float>{}, out);
      } else {
        const Matrix<float> sums = {k > block ? partial.at_least(rows * I::kBlockN) : nullptr, rows,
                                    round_up(out.columns, I::kColumns), I::kBlockN};
        const Matrix<float> addend = from > 0 ? sums : Matrix<float>{};
        if (from + deep < k) {
          I::multiply(packed, addend, sums);
        } else {
          I::multiply(packed, addend, out);
        }
      }
    }
  }
}

/// product() on the calling thread, by the inner kernel I. T: float, or bf16 and not `add`.
template <class I, typename E, typename T>
void blocked_product(const Matrix<const E>& a, const Matrix<const E>& b, bool add,
                     const Matrix<T>& c) {
  if (a.columns == 0) {
    for (std::int64_t row = 0; row < c.rows && !add; ++row) {
      std::fill_n(c.from(row).data, c.columns, T(0));
    }
    return;
  }
  const bool one_block = c.columns <= I::kBlockN && a.columns <= block_depth<I>(a.columns);
  for (std::int64_t row = 0; row < c.rows; row += I::kBlockM) {
    multiply_rows<I>(a.block(row, 0, I::kBlockM, a.columns), b, add,
                     c.block(row, 0, I::kBlockM, c.columns), one_block && row > 0);
  }
}

}  // namespace ddprun::kernels
