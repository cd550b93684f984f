// VDPBF16PS over blocks of 12 x 32 results, which take 24 of the 32 registers.
#include "ddprun/kernels/attention/tile_product.h"

#include "ddprun/kernels/product/vectors_avx512.h"

namespace ddprun::kernels {

namespace {

constexpr int kRows = 12;
constexpr int kWidth = 16;               // lanes of a vector
constexpr std::int64_t kStepsALine = 4;  // that is asked for

/// to (rows, vectors * kWidth) = sums, or to += sums if `add`.
template <int rows, int vectors>
DDPRUN_AVX512 inline void write_sums(const __m512 (&sums)[rows][vectors], bool add, float* to,
                                     std::int64_t stride) {
#pragma GCC unroll 12
  for (int row = 0; row < rows; ++row, to += stride) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      float* const at = to + v * kWidth;
      const __m512 sum = sums[row][v];
      _mm512_storeu_ps(at, add ? _mm512_add_ps(_mm512_loadu_ps(at), sum) : sum);
    }
  }
}

/// One block of c: (rows, vectors * kWidth) at (first_row, first_lane).
template <int rows, int vectors>
DDPRUN_AVX512 void multiply_block(const Matrix<const Pair>& left, const Matrix<const Pair>& right,
                                  bool add, const Matrix<float>& c, std::int64_t first_row,
                                  std::int64_t first_lane, Ahead& ahead) {
  const std::int64_t row_stride = left.row_stride();
  const std::int64_t step_stride = left.column_stride();
  ahead.ask(left.columns / kStepsALine);
  __m512 sums[rows][vectors];
#pragma GCC unroll 12
  for (int row = 0; row < rows; ++row) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) sums[row][v] = _mm512_setzero_ps();
  }
  const Pair* a = left.data + first_row * row_stride;
  const Pair* b = right.data + first_lane;
  // What is needed in the loop alone leaves its addresses in registers.
  const std::int64_t right_stride = right.stride;
  for (std::int64_t step = left.columns; step > 0; --step, a += step_stride, b += right_stride) {
    __m512bh lanes[vectors];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) lanes[v] = (__m512bh)_mm512_loadu_si512(b + v * kWidth);
#pragma GCC unroll 12
    for (int row = 0; row < rows; ++row) {
      const __m512bh pair = avx512::broadcast_word(&a[row * row_stride].first);
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) {
        sums[row][v] = _mm512_dpbf16_ps(sums[row][v], pair, lanes[v]);
      }
    }
  }
  write_sums(sums, add, c.data + first_row * c.stride + first_lane, c.stride);
}

/// multiply_block() for a number of rows that is known at run time: those that are left, or `most`.
template <int most, int vectors>
void multiply_rows(const Matrix<const Pair>& left, const Matrix<const Pair>& right, bool add,
                   const Matrix<float>& c, std::int64_t row, std::int64_t lane, Ahead& ahead) {
  if constexpr (most > 1) {
    if (left.rows - row < most) {
      return multiply_rows<most - 1, vectors>(left, right, add, c, row, lane, ahead);
    }
  }
  multiply_block<most, vectors>(left, right, add, c, row, lane, ahead);
}

template <int vectors>
void multiply_lanes(const Matrix<const Pair>& left, const Matrix<const Pair>& right, bool add,
                    const Matrix<float>& c, std::int64_t lane, Ahead& ahead) {
  for (std::int64_t row = 0; row < left.rows; row += kRows) {
    multiply_rows<kRows, vectors>(left, right, add, c, row, lane, ahead);
  }
}

}  // namespace

void avx512_tile_product(const Matrix<const Pair>& left, const Matrix<const Pair>& right, bool add,
                         const Matrix<float>& c, Ahead& ahead) {
  std::int64_t lane = 0;
  for (; lane + 2 * kWidth <= right.columns; lane += 2 * kWidth) {
    multiply_lanes<2>(left, right, add, c, lane, ahead);
  }
  if (lane < right.columns) multiply_lanes<1>(left, right, add, c, lane, ahead);
}

}  // namespace ddprun::kernels
