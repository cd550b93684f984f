// Products of matrices, block by block: what the instructions for them share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

#include "ddprun/kernels/product/product.h"

namespace ddprun::kernels {

inline std::int64_t round_up(std::int64_t value, std::int64_t to) {
  return (value + to - 1) / to * to;
}

/// A row-major matrix with its bounds, where it lies in memory.
template <class E>
struct Source {
  const E* data;
  std::int64_t stride, rows, columns;

  Source from(std::int64_t row, std::int64_t column, std::int64_t row_count,
              std::int64_t column_count) const {
    return {data + row * stride + column, stride, std::min(row_count, rows - row),
            std::min(column_count, columns - column)};
  }
};

/// Packed operands of a block of c: panels of kRows rows of a, and of kColumns columns of b, each
/// `depth` deep.
template <class E>
struct Packed {
  const E* a;
  const E* b;
  std::int64_t depth;

  const E* panel_a(std::int64_t row) const { return a + row * depth; }
  const E* panel_b(std::int64_t column) const { return b + column * depth; }
};

/// Calls multiply(a, b, row, column) for each result (m, n) of two panels, along the rows of the
/// results: the next one takes the neighbours of lines that were just touched.
template <class I, class F>
void for_panels(const Packed<typename I::Element>& packed, std::int64_t m, std::int64_t n,
                const F& multiply) {
  for (std::int64_t row = 0; row < m; row += I::kRows) {
    for (std::int64_t column = 0; column < n; column += I::kColumns) {
      multiply(packed.panel_a(row), packed.panel_b(column), row, column);
    }
  }
}

/// Both forms of an inner kernel's multiply() (below), for one that has
/// multiply_panels(a, b, depth, m, n, addend, c): at most (kRows, kColumns) of c, float32 or
/// bfloat16 = the product of two panels, plus addend if there is one.
template <class I>
struct ByPanels {
  template <class E>
  static void multiply(const Packed<E>& packed, std::int64_t m, std::int64_t n, bool add,
                       Matrix<float> c) {
    multiply_all(packed, m, n, {add ? c.data : nullptr, c.stride}, c);
  }
  template <class E>
  static void multiply(const Packed<E>& packed, std::int64_t m, std::int64_t n,
                       Matrix<const float> addend, Matrix<bf16> c) {
    multiply_all(packed, m, n, addend, c);
  }

 private:
  template <class E, typename T>
  static void multiply_all(const Packed<E>& packed, std::int64_t m, std::int64_t n,
                           Matrix<const float> addend, Matrix<T> c) {
    for_panels<I>(packed, m, n, [&](auto* a, auto* b, auto row, auto column) {
      I::multiply_panels(a, b, packed.depth, m - row, n - column,
                         addend.data == nullptr ? addend : addend.from(row, column),
                         c.from(row, column));
    });
  }
};

/// Memory of a thread, aligned to cache lines. It grows and is kept.
template <typename T>
class Workspace {
 public:
  T* at_least(std::int64_t size) {
    if (size > size_) {
      size_ = 0;
      memory_.reset();
      memory_.reset(new (std::align_val_t{64}) T[static_cast<std::size_t>(size)]);
      size_ = size;
    }
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(T* memory) const { ::operator delete[](memory, std::align_val_t{64}); }
  };
  std::unique_ptr<T[], Free> memory_;
  std::int64_t size_ = 0;
};

// An inner kernel `I` is a struct of static members:
//   Element              of packed a and b: bf16 or float; a wider one than theirs widens them
//   kRows, kColumns      of a panel of a, and of b
//   kStep                of which every depth is a multiple; what is missing counts as zero
//   kBlockM, kBlockN, kBlockK, kKept   what stays in the caches, in elements
//   pack_left(op, source, out), pack_right(op, source, out)   panels of op(a) and op(b)
//   multiply(packed, m, n, add, c)     c (m, n) float32 = the block of a times that of b, or c +=
//   multiply(packed, m, n, addend, c)  c (m, n) bfloat16 = the same plus addend (float32, in whole
//                                      panels) if there is one, rounded once

/// Where op(matrix)'s block of rows and k lies in it.
template <class E>
Source<E> block_of(Op op, const Source<E>& source, std::int64_t row, std::int64_t k,
                   std::int64_t rows, std::int64_t depth) {
  return op == Op::plain ? source.from(row, k, rows, depth) : source.from(k, row, depth, rows);
}

/// Computes at most kBlockM rows of c: kBlockN columns at a time, each over all of k.
template <class I, typename S, typename T>
void multiply_rows(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                   const Source<S>& a, const Source<S>& b, bool add, Matrix<T> c) {
  using E = typename I::Element;
  static thread_local Workspace<E> left, right;
  static thread_local Workspace<float> partial;
  const std::int64_t rows = round_up(m, I::kRows);
  const std::int64_t depth = round_up(k, I::kStep);
  const bool keep_a = rows * depth <= I::kKept;
  E* const packed_a = left.at_least(rows * (keep_a ? depth : I::kBlockK));
  E* const packed_b = right.at_least(I::kBlockN * I::kBlockK);
  const auto pack_a = [&](std::int64_t from, E* out) {
    I::pack_left(op_a, block_of(op_a, a, 0, from, m, I::kBlockK), out);
  };
  if (keep_a) {
    for (std::int64_t from = 0; from < k; from += I::kBlockK) pack_a(from, packed_a + rows * from);
  }
  for (std::int64_t column = 0; column < n; column += I::kBlockN) {
    const std::int64_t columns = std::min(I::kBlockN, n - column);
    const Matrix<T> out = c.from(0, column);
    for (std::int64_t from = 0; from < k; from += I::kBlockK) {
      const std::int64_t deep = std::min(I::kBlockK, k - from);
      if (!keep_a) pack_a(from, packed_a);
      const Source<S> b_block = op_b == Op::plain ? b.from(from, column, deep, columns)
                                                  : b.from(column, from, columns, deep);
      I::pack_right(op_b, b_block, packed_b);
      const Packed<E> packed = {keep_a ? packed_a + rows * from : packed_a, packed_b,
                                round_up(deep, I::kStep)};
      if constexpr (std::is_same_v<T, float>) {
        I::multiply(packed, m, columns, add || from > 0, out);
      } else {
        float* const sums = k > I::kBlockK ? partial.at_least(rows * I::kBlockN) : nullptr;
        if (from + deep < k) {
          I::multiply(packed, rows, round_up(columns, I::kColumns), from > 0, {sums, I::kBlockN});
        } else {
          const Matrix<const float> addend = {from > 0 ? sums : nullptr, I::kBlockN};
          I::multiply(packed, m, columns, addend, out);
        }
      }
    }
  }
}

/// product() on the calling thread, by the inner kernel I. T: float, or bf16 and not `add`.
template <class I, typename S, typename T>
void blocked_product(Op op_a, Op op_b, std::int64_t m, std::int64_t n, std::int64_t k,
                     Matrix<const S> a, Matrix<const S> b, bool add, Matrix<T> c) {
  if (k == 0) {
    for (std::int64_t row = 0; row < m && !add; ++row) {
      std::fill_n(c.data + row * c.stride, n, T(0));
    }
    return;
  }
  const bool a_lies = op_a == Op::plain;
  const bool b_lies = op_b == Op::plain;
  const Source<S> left = {a.data, a.stride, a_lies ? m : k, a_lies ? k : m};
  const Source<S> right = {b.data, b.stride, b_lies ? k : n, b_lies ? n : k};
  for (std::int64_t row = 0; row < m; row += I::kBlockM) {
    const std::int64_t rows = std::min(I::kBlockM, m - row);
    multiply_rows<I>(op_a, op_b, rows, n, k, block_of(op_a, left, row, 0, rows, k), right, add,
                     c.from(row));
  }
}

}  // namespace ddprun::kernels
